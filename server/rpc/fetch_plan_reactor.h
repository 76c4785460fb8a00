// One FetchPlan call: gets the plan from the loop, then writes it chunk by
// chunk.
//
// The loop only finds the plan; a gRPC thread serialises it.

#ifndef LOCKSTEP_SERVER_RPC_FETCH_PLAN_REACTOR_H_
#define LOCKSTEP_SERVER_RPC_FETCH_PLAN_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "proto/codec.h"
#include "server/rpc/plan_bytes.h"
#include "server/rpc/service_context.h"

namespace lockstep::rpc {

// Owns itself until OnDone.
class FetchPlanReactor final : public grpc::ServerWriteReactor<v1::PlanChunk> {
 public:
  FetchPlanReactor(const ServiceContext* context, PlanBytes* plans,
                   const grpc::CallbackServerContext& call,
                   const v1::FetchPlanRequest& request);

 private:
  // Asks the loop for the plan; an error refuses the call.
  absl::Status Ask(const ServiceContext* context,
                   const v1::FetchPlanRequest& request);
  void Found(absl::StatusOr<std::shared_ptr<const plan::Plan>> plan);
  void OnSendInitialMetadataDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }
  void WriteNext();

  const OpenCalls::CountedCall counted_;
  PlanBytes* const plans_;
  std::string digest_;
  proto::Header header_;
  std::shared_ptr<const plan::Plan> plan_;
  std::shared_ptr<const std::string> bytes_;
  size_t written_ = 0;
  v1::PlanChunk chunk_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_FETCH_PLAN_REACTOR_H_

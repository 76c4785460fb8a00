// The gRPC service for workers: each call gets its own reactor.

#ifndef LOCKSTEP_SERVER_RPC_COORDINATOR_SERVICE_H_
#define LOCKSTEP_SERVER_RPC_COORDINATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "lockstep/v1/session.grpc.pb.h"
#include "server/rpc/fetch_plan_reactor.h"
#include "server/rpc/plan_bytes.h"
#include "server/rpc/service_context.h"
#include "server/rpc/session_reactor.h"

namespace lockstep::rpc {

class CoordinatorService final
    : public v1::Coordinator::WithRawCallbackMethod_Session<
          v1::Coordinator::WithCallbackMethod_FetchPlan<
              v1::Coordinator::Service>> {
 public:
  explicit CoordinatorService(const ServiceContext* context)
      : context_(context) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Session(
      grpc::CallbackServerContext* call) override {
    return SessionReactor::Start(context_, call);
  }

  grpc::ServerWriteReactor<v1::PlanChunk>* FetchPlan(
      grpc::CallbackServerContext* call,
      const v1::FetchPlanRequest* request) override {
    return new FetchPlanReactor(context_, &plans_, *call, *request);
  }

 private:
  const ServiceContext* const context_;
  PlanBytes plans_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_COORDINATOR_SERVICE_H_

// The gRPC service for operators: translates each call, posts it to the loop,
// and answers with the loop's result.

#ifndef LOCKSTEP_SERVER_RPC_ADMIN_SERVICE_H_
#define LOCKSTEP_SERVER_RPC_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/statusor.h"
#include "lockstep/v1/admin.grpc.pb.h"
#include "proto/codec.h"
#include "server/core/event.h"
#include "server/rpc/service_context.h"

namespace lockstep::rpc {

class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(const ServiceContext* context) : context_(context) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* call,
                                      const v1::CreateJobRequest* request,
                                      v1::CreateJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* call,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* ListLimits(
      grpc::CallbackServerContext* call, const v1::ListLimitsRequest* request,
      v1::ListLimitsResponse* response) override;
  grpc::ServerUnaryReactor* DescribeJob(
      grpc::CallbackServerContext* call, const v1::DescribeJobRequest* request,
      v1::DescribeJobResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* call,
      const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CommandJob(
      grpc::CallbackServerContext* call, const v1::CommandJobRequest* request,
      v1::CommandJobResponse* response) override;
  grpc::ServerUnaryReactor* StopJob(grpc::CallbackServerContext* call,
                                    const v1::StopJobRequest* request,
                                    v1::StopJobResponse* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* call,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* SaveJob(grpc::CallbackServerContext* call,
                                    const v1::SaveJobRequest* request,
                                    v1::SaveJobResponse* response) override;
  grpc::ServerUnaryReactor* ReportEvidence(
      grpc::CallbackServerContext* call,
      const v1::ReportEvidenceRequest* request,
      v1::ReportEvidenceResponse* response) override;

 private:
  // A request that passed the gate: its job, and the caller.
  struct Admitted {
    proto::Header header;
    core::Requester by;
  };
  template <typename Request>
  absl::StatusOr<proto::Header> HeaderOf(const Request& request) const;
  template <typename Request>
  absl::StatusOr<Admitted> AdmitOperator(grpc::CallbackServerContext* call,
                                         const Request& request) const;
  // A call that a worker's token allows.
  template <typename Request>
  absl::StatusOr<Admitted> AdmitWorker(const grpc::CallbackServerContext* call,
                                       const Request& request) const;

  const ServiceContext* const context_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_ADMIN_SERVICE_H_

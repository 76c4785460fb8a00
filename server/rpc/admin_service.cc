#include "server/rpc/admin_service.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/codec.h"
#include "server/rpc/status.h"
#include "server/rpc/watch_reactor.h"

namespace lockstep::rpc {
namespace {

// A watch that was refused at the door.
class RefusedWatch final
    : public grpc::ServerWriteReactor<v1::WatchJobResponse> {
 public:
  explicit RefusedWatch(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* call,
                                 const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// What ends a call once the loop has an answer.
auto FinishWith(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status) {
    reactor->Finish(ToGrpc(status));
  };
}

}  // namespace

template <typename Request>
absl::StatusOr<proto::Header> AdminService::Admit(
    const Request& request) const {
  const absl::Status may = context_->gate.Check(request.token());
  if (!may.ok()) return may;
  absl::StatusOr<proto::Header> header = proto::FromProto(request.header());
  if (header.ok()) header->term = context_->term;
  return header;
}

grpc::ServerUnaryReactor* AdminService::CreateJob(
    grpc::CallbackServerContext* call, const v1::CreateJobRequest* request,
    v1::CreateJobResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());
  absl::StatusOr<JobSpec> spec = proto::FromProto(request->spec());
  if (!spec.ok()) return Refuse(call, spec.status());

  *response->mutable_header() =
      ToProto(proto::Header{.job = {spec->name}, .term = context_->term});
  auto* reactor = call->DefaultReactor();
  context_->loop->CreateJob(*std::move(spec), request->token(),
                            FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ListJobs(
    grpc::CallbackServerContext* call, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());

  *response->mutable_header() = ToProto(*header);
  auto* reactor = call->DefaultReactor();
  context_->loop->ListJobs(
      request->token(),
      [reactor, response](absl::StatusOr<std::vector<JobSummary>> jobs) {
        if (!jobs.ok()) return reactor->Finish(ToGrpc(jobs.status()));
        for (const JobSummary& job : *jobs) {
          *response->add_jobs() = proto::ToProto(job);
        }
        reactor->Finish(grpc::Status::OK);
      });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DescribeJob(
    grpc::CallbackServerContext* call, const v1::DescribeJobRequest* request,
    v1::DescribeJobResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());

  auto* reactor = call->DefaultReactor();
  context_->loop->DescribeJob(
      header->job, request->token(),
      [reactor, response, about = *header](absl::StatusOr<JobView> view) {
        if (!view.ok()) return reactor->Finish(ToGrpc(view.status()));
        *response->mutable_header() =
            ToProto(proto::Header{about.job, view->epoch, about.term});
        *response->mutable_view() = proto::ToProto(*view);
        reactor->Finish(grpc::Status::OK);
      });
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* AdminService::WatchJob(
    grpc::CallbackServerContext*, const v1::WatchJobRequest* request) {
  absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return new RefusedWatch(header.status());
  return WatchReactor::Start(context_, std::move(header->job),
                             request->token());
}

grpc::ServerUnaryReactor* AdminService::CommandJob(
    grpc::CallbackServerContext* call, const v1::CommandJobRequest* request,
    v1::CommandJobResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());
  const absl::StatusOr<JobCommand> command =
      proto::FromProto(request->command());
  if (!command.ok()) return Refuse(call, command.status());

  *response->mutable_header() = ToProto(*header);
  auto* reactor = call->DefaultReactor();
  context_->loop->CommandJob(header->job, request->token(), *command,
                             request->reason(), FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::StopJob(
    grpc::CallbackServerContext* call, const v1::StopJobRequest* request,
    v1::StopJobResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());

  *response->mutable_header() = ToProto(*header);
  auto* reactor = call->DefaultReactor();
  context_->loop->StopJob(header->job, request->token(), request->reason(),
                          FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ReportEvidence(
    grpc::CallbackServerContext* call, const v1::ReportEvidenceRequest* request,
    v1::ReportEvidenceResponse* response) {
  const absl::StatusOr<proto::Header> header = Admit(*request);
  if (!header.ok()) return Refuse(call, header.status());
  absl::StatusOr<protocol::Evidence> evidence =
      proto::FromProto(request->evidence());
  if (!evidence.ok()) return Refuse(call, evidence.status());

  *response->mutable_header() = ToProto(*header);
  auto* reactor = call->DefaultReactor();
  context_->loop->ReportEvidence(header->job, request->token(),
                                 *std::move(evidence), FinishWith(reactor));
  return reactor;
}

}  // namespace lockstep::rpc

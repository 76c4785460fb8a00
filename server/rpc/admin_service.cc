#include "server/rpc/admin_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/codec.h"
#include "proto/introduction.h"
#include "protocol/session.h"
#include "server/rpc/call_bytes.h"
#include "server/rpc/status.h"
#include "server/rpc/watch_reactor.h"

namespace lockstep::rpc {
namespace {

// A watch that the gate refused.
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

void Introduce(const ServiceContext& context,
               grpc::CallbackServerContext* call) {
  call->AddTrailingMetadata(proto::kVersionKey, context.version);
  call->AddTrailingMetadata(proto::kProtocolKey,
                            absl::StrCat(protocol::kVersion));
  call->AddTrailingMetadata(proto::kTimeKey,
                            absl::StrCat(absl::ToUnixMillis(absl::Now())));
}

// What a launcher is told of a job whose state it has saved.
JobView SavesOf(const JobView& view) {
  JobView saves;
  saves.name = view.name;
  saves.spec = view.spec;
  saves.state = view.state;
  saves.epoch = view.epoch;
  saves.checkpoint = view.checkpoint;
  return saves;
}

// A callback that finishes a call with the loop's answer.
auto FinishWith(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status) {
    reactor->Finish(ToGrpc(status));
  };
}

}  // namespace

template <typename Request>
absl::StatusOr<proto::Header> AdminService::HeaderOf(
    const Request& request) const {
  absl::StatusOr<proto::Header> header = proto::FromProto(request.header());
  if (header.ok()) header->term = context_->term;
  return header;
}

template <typename Request>
absl::StatusOr<AdminService::Admitted> AdminService::AdmitOperator(
    grpc::CallbackServerContext* call, const Request& request) const {
  const absl::Status size =
      CallBytes(context_->limits, *call)
          .AddMessage(static_cast<int64_t>(request.ByteSizeLong()));
  if (!size.ok()) return size;
  const CallerIdentity caller = CallerOf(call->auth_context().get());
  absl::StatusOr<Admission> admission = context_->tokens->gate()->AdmitOperator(
      caller, request.header().job(), request.token());
  if (!absl::IsUnauthenticated(admission.status())) Introduce(*context_, call);
  if (!admission.ok()) return admission.status();
  absl::StatusOr<proto::Header> header = HeaderOf(request);
  if (!header.ok()) return header.status();
  return Admitted{
      *std::move(header),
      {.token = std::move(admission->token),
       .name = NameOf(caller, admission->credential, call->peer())}};
}

template <typename Request>
absl::StatusOr<AdminService::Admitted> AdminService::AdmitWorker(
    const grpc::CallbackServerContext* call, const Request& request) const {
  const absl::Status size =
      CallBytes(context_->limits, *call)
          .AddMessage(static_cast<int64_t>(request.ByteSizeLong()));
  if (!size.ok()) return size;
  absl::StatusOr<std::string> token = context_->tokens->gate()->AdmitWorker(
      request.header().job(), request.token());
  if (!token.ok()) return token.status();
  absl::StatusOr<proto::Header> header = HeaderOf(request);
  if (!header.ok()) return header.status();
  return Admitted{
      *std::move(header),
      {.token = *std::move(token),
       .name = NameOf(CallerOf(call->auth_context().get()), "", call->peer())}};
}

grpc::ServerUnaryReactor* AdminService::CreateJob(
    grpc::CallbackServerContext* call, const v1::CreateJobRequest* request,
    v1::CreateJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());
  absl::StatusOr<JobSpec> spec = proto::FromProto(request->spec());
  if (!spec.ok()) return Refuse(call, spec.status());

  *response->mutable_header() =
      ToProto(proto::Header{.job = {spec->name}, .term = context_->term});
  auto* reactor = call->DefaultReactor();
  context_->loop->CreateJob(*std::move(spec), std::move(admitted->by),
                            FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ListJobs(
    grpc::CallbackServerContext* call, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->ListJobs(
      admitted->by.token,
      [reactor, response](absl::StatusOr<std::vector<JobSummary>> jobs) {
        if (!jobs.ok()) return reactor->Finish(ToGrpc(jobs.status()));
        for (const JobSummary& job : *jobs) {
          *response->add_jobs() = proto::ToProto(job);
        }
        reactor->Finish(grpc::Status::OK);
      });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ListLimits(
    grpc::CallbackServerContext* call, const v1::ListLimitsRequest* request,
    v1::ListLimitsResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->ListLimits([reactor, response, limits = context_->limits](
                                 absl::StatusOr<std::vector<LimitUse>> uses) {
    if (!uses.ok()) return reactor->Finish(ToGrpc(uses.status()));
    for (const auto& some : {*uses, limits->Uses()}) {
      for (const LimitUse& use : some) {
        *response->add_limits() = proto::ToProto(use);
      }
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DescribeJob(
    grpc::CallbackServerContext* call, const v1::DescribeJobRequest* request,
    v1::DescribeJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());

  auto* reactor = call->DefaultReactor();
  context_->loop->DescribeJob(
      admitted->header.job, admitted->by.token,
      [reactor, response,
       about = admitted->header](absl::StatusOr<JobView> view) {
        if (!view.ok()) return reactor->Finish(ToGrpc(view.status()));
        *response->mutable_header() =
            ToProto(proto::Header{about.job, view->epoch, about.term});
        *response->mutable_view() = proto::ToProto(*view);
        reactor->Finish(grpc::Status::OK);
      });
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* AdminService::WatchJob(
    grpc::CallbackServerContext* call, const v1::WatchJobRequest* request) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return new RefusedWatch(admitted.status());
  return WatchReactor::Start(context_, std::move(admitted->header.job),
                             std::move(admitted->by.token));
}

grpc::ServerUnaryReactor* AdminService::CommandJob(
    grpc::CallbackServerContext* call, const v1::CommandJobRequest* request,
    v1::CommandJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());
  const absl::StatusOr<JobCommand> command =
      proto::FromProto(request->command());
  if (!command.ok()) return Refuse(call, command.status());
  absl::StatusOr<std::string> reason =
      proto::TextFromProto("reason", request->reason());
  if (!reason.ok()) return Refuse(call, reason.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->CommandJob(admitted->header.job, std::move(admitted->by),
                             *command, *std::move(reason), FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::StopJob(
    grpc::CallbackServerContext* call, const v1::StopJobRequest* request,
    v1::StopJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());

  absl::StatusOr<std::string> reason =
      proto::TextFromProto("reason", request->reason());
  if (!reason.ok()) return Refuse(call, reason.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->StopJob(admitted->header.job, std::move(admitted->by),
                          *std::move(reason), FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DeleteJob(
    grpc::CallbackServerContext* call, const v1::DeleteJobRequest* request,
    v1::DeleteJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitOperator(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->DeleteJob(admitted->header.job, std::move(admitted->by),
                            request->keep(), FinishWith(reactor));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SaveJob(
    grpc::CallbackServerContext* call, const v1::SaveJobRequest* request,
    v1::SaveJobResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitWorker(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());
  absl::StatusOr<std::string> reason =
      proto::TextFromProto("reason", request->reason());
  if (!reason.ok()) return Refuse(call, reason.status());

  auto* reactor = call->DefaultReactor();
  context_->loop->DescribeJob(
      admitted->header.job, admitted->by.token,
      [this, reactor, response, ask_only = request->ask_only(),
       admitted = *admitted,
       reason = *std::move(reason)](absl::StatusOr<JobView> view) {
        if (!view.ok()) return reactor->Finish(ToGrpc(view.status()));
        *response->mutable_header() = ToProto(proto::Header{
            admitted.header.job, view->epoch, admitted.header.term});
        *response->mutable_view() = proto::ToProto(SavesOf(*view));
        if (ask_only) return reactor->Finish(grpc::Status::OK);
        context_->loop->CommandJob(admitted.header.job, admitted.by,
                                   JobCommand::kSave, reason,
                                   FinishWith(reactor));
      });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ReportEvidence(
    grpc::CallbackServerContext* call, const v1::ReportEvidenceRequest* request,
    v1::ReportEvidenceResponse* response) {
  absl::StatusOr<Admitted> admitted = AdmitWorker(call, *request);
  if (!admitted.ok()) return Refuse(call, admitted.status());
  absl::StatusOr<protocol::Evidence> evidence =
      proto::FromProto(request->evidence());
  if (!evidence.ok()) return Refuse(call, evidence.status());

  *response->mutable_header() = ToProto(admitted->header);
  auto* reactor = call->DefaultReactor();
  context_->loop->ReportEvidence(admitted->header.job,
                                 std::move(admitted->by.token),
                                 *std::move(evidence), FinishWith(reactor));
  return reactor;
}

}  // namespace lockstep::rpc

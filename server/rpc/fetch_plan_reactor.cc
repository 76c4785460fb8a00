#include "server/rpc/fetch_plan_reactor.h"

#include <memory>
#include <string>
#include <utility>

#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "server/rpc/call_bytes.h"
#include "server/rpc/status.h"

namespace lockstep::rpc {

FetchPlanReactor::FetchPlanReactor(const ServiceContext* context,
                                   PlanBytes* plans,
                                   const grpc::CallbackServerContext& call,
                                   const v1::FetchPlanRequest& request)
    : counted_(context->calls), plans_(plans) {
  absl::Status asked =
      CallBytes(context->limits, call)
          .AddMessage(static_cast<int64_t>(request.ByteSizeLong()));
  if (asked.ok()) asked = Ask(context, request);
  if (!asked.ok()) Finish(ToGrpc(asked));
}

absl::Status FetchPlanReactor::Ask(const ServiceContext* context,
                                   const v1::FetchPlanRequest& request) {
  absl::StatusOr<std::string> token = context->tokens->gate()->AdmitWorker(
      request.header().job(), request.token());
  if (!token.ok()) return token.status();
  const absl::StatusOr<proto::Header> header =
      proto::FromProto(request.header());
  if (!header.ok()) return header.status();
  absl::StatusOr<std::string> digest =
      proto::NameFromProto("digest", request.digest());
  if (!digest.ok()) return digest.status();
  digest_ = *std::move(digest);
  header_ = *header;
  header_.term = context->term;
  context->loop->FindPlan(
      header_.job, *std::move(token), digest_,
      [this](absl::StatusOr<std::shared_ptr<const plan::Plan>> plan) {
        Found(std::move(plan));
      });
  return absl::OkStatus();
}

void FetchPlanReactor::Found(
    absl::StatusOr<std::shared_ptr<const plan::Plan>> plan) {
  if (!plan.ok()) return Finish(ToGrpc(plan.status()));
  plan_ = *std::move(plan);
  StartSendInitialMetadata();  // continues on a gRPC thread
}

void FetchPlanReactor::OnSendInitialMetadataDone(bool ok) {
  if (!ok) return Finish(grpc::Status::CANCELLED);
  bytes_ = plans_->Of(digest_, *plan_);
  plan_.reset();
  WriteNext();
}

void FetchPlanReactor::OnWriteDone(bool ok) {
  ok ? WriteNext() : Finish(grpc::Status::CANCELLED);
}

void FetchPlanReactor::WriteNext() {
  if (written_ == bytes_->size()) return Finish(grpc::Status::OK);
  chunk_ = proto::PlanChunkAt(header_, *bytes_, written_);
  written_ += chunk_.data().size();
  StartWrite(&chunk_);
}

}  // namespace lockstep::rpc

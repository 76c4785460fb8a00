#include "server/rpc/session_reactor.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/text/utf8.h"
#include "proto/codec.h"
#include "server/rpc/status.h"

namespace lockstep::rpc {
namespace {

grpc::ByteBuffer Bytes(const v1::ToWorker& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  Check(
      grpc::SerializationTraits<v1::ToWorker>::Serialize(message, &bytes, &own)
          .ok(),
      "a message of ours serialises");
  return bytes;
}

}  // namespace

SessionReactor* SessionReactor::Start(const ServiceContext* context,
                                      grpc::CallbackServerContext* call) {
  auto* reactor = new SessionReactor(context, call);
  reactor->self_.reset(reactor);
  reactor->session_ = context->loop->Open(reactor->self_);
  reactor->StartRead(&reactor->in_);
  return reactor;
}

// --- Reading ----------------------------------------------------------------

void SessionReactor::OnReadDone(bool ok) {
  if (!ok) {
    why_ = call_->IsCancelled() ? "its stream broke" : "it closed its stream";
    return Close(absl::OkStatus());
  }
  absl::StatusOr<protocol::ToCoordinator> message = Judge();
  if (!message.ok()) return RefuseAndClose(message.status());
  context_->loop->Receive(session_, *std::move(message));
}

absl::StatusOr<protocol::ToCoordinator> SessionReactor::Judge() {
  v1::ToCoordinator wire;
  if (!grpc::SerializationTraits<v1::ToCoordinator>::Deserialize(&in_, &wire)
           .ok()) {
    return absl::InvalidArgumentError("bytes that are no message");
  }
  job_ = {Printable(wire.header().job())};
  absl::StatusOr<protocol::ToCoordinator> message = proto::FromProto(wire);
  if (!message.ok()) return message;
  auto* hello = std::get_if<protocol::Hello>(&message->body);
  if (hello == nullptr) return message;
  // The core refuses other versions; their tokens may be in another field.
  if (hello->version != protocol::kVersion) return message;
  absl::StatusOr<std::string> token =
      context_->tokens->gate()->AdmitWorker(message->job.value, hello->token);
  if (!token.ok()) return token.status();
  hello->token = *std::move(token);
  return message;
}

void SessionReactor::Applied() {
  MutexLock lock(&mutex_);
  if (!finished_) StartRead(&in_);
}

// Stops reading; the worker receives the reason in a message before the stream
// ends.
void SessionReactor::RefuseAndClose(const absl::Status& status) {
  Send({.job = job_,
        .term = context_->term,
        .body =
            protocol::Refused{status.code(), std::string(status.message())}});
  Close(status);
}

// --- Writing ----------------------------------------------------------------

bool SessionReactor::Send(const protocol::ToWorker& message) {
  MutexLock lock(&mutex_);
  if (last_word_) return true;  // it is being closed already
  if (outbox_.size() >= kOutboxMax) return false;
  outbox_.push_back(message);
  Advance();
  return true;
}

void SessionReactor::Close(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!last_word_) last_word_ = status;
  Advance();
}

void SessionReactor::Abandon() {
  MutexLock lock(&mutex_);
  outbox_.clear();
  if (!done_) call_->TryCancel();
}

void SessionReactor::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) outbox_.clear();  // the stream broke
  Advance();
}

void SessionReactor::Advance() {
  if (writing_ || finished_) return;
  if (!outbox_.empty()) {
    writing_ = true;
    out_ = Bytes(proto::ToProto(outbox_.front()));
    outbox_.pop_front();
    StartWrite(&out_);
  } else if (last_word_) {
    finished_ = true;
    Finish(ToGrpc(*last_word_));
  }
}

void SessionReactor::OnDone() {
  {
    MutexLock lock(&mutex_);
    done_ = true;
  }
  context_->loop->Closed(session_, why_);
  counted_.End();
  const std::shared_ptr<SessionReactor> last = std::move(self_);
}

}  // namespace lockstep::rpc

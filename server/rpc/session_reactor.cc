#include "server/rpc/session_reactor.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text/utf8.h"
#include "lockstep/v1/session.grpc.pb.h"
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

// About the memory of a message: what it holds besides its struct. Lists that
// several messages share count in each.
int64_t HeldBytes(const protocol::Welcome& welcome) {
  int64_t bytes = 0;
  for (const std::string& name : welcome.spec.workers) {
    bytes += static_cast<int64_t>(sizeof name + name.size());
  }
  return bytes;
}

int64_t HeldBytes(const protocol::EpochFormed& formed) {
  constexpr int64_t kStrings = 128;
  return static_cast<int64_t>(formed.members.size()) *
         (int64_t{sizeof(protocol::Member)} + kStrings);
}

int64_t HeldBytes(const protocol::GroupHandles& group) {
  int64_t bytes = 0;
  for (const std::string& handle : group.handles) {
    bytes += static_cast<int64_t>(sizeof handle + handle.size());
  }
  return bytes;
}

int64_t HeldBytes(const protocol::Decide& decide) {
  return static_cast<int64_t>(decide.decisions.size() *
                              sizeof(protocol::Decision));
}

int64_t HeldBytes(const protocol::EpochEnded& ended) {
  return static_cast<int64_t>(ended.cause.message.size());
}

int64_t BytesOf(const protocol::ToWorker& message) {
  const int64_t held = std::visit(
      [](const auto& body) -> int64_t {
        if constexpr (requires { HeldBytes(body); }) {
          return HeldBytes(body);
        }
        return 0;
      },
      message.body);
  return int64_t{sizeof message} + held;
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
  const absl::Status size =
      bytes_.AddMessage(static_cast<int64_t>(in_.Length()));
  if (!size.ok()) return size;
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
  why_ = absl::StrCat("it was refused: ", status.message());
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
  const auto messages = static_cast<int64_t>(outbox_.size()) + 1;
  const int64_t bytes = outbox_bytes_ + BytesOf(message);
  if (!context_->limits->AdmitUnread(messages, bytes)) return false;
  outbox_bytes_ = bytes;
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
  DropOutbox();
  if (!done_) call_->TryCancel();
}

void SessionReactor::DropOutbox() {
  outbox_.clear();
  outbox_bytes_ = 0;
}

void SessionReactor::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) DropOutbox();  // the stream broke
  Advance();
}

void SessionReactor::Advance() {
  if (writing_ || finished_) return;
  if (!outbox_.empty()) {
    writing_ = true;
    out_ = Bytes(proto::ToProto(outbox_.front()));
    outbox_bytes_ -= BytesOf(outbox_.front());
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

#include "client/session/grpc_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "proto/codec.h"

namespace lockstep::session {

std::shared_ptr<GrpcStream> GrpcStream::Start(
    v1::Coordinator::StubInterface* stub, StreamHandler* handler) {
  std::shared_ptr<GrpcStream> stream(new GrpcStream(handler));
  stream->self_ = stream;
  handler->OnOpened();  // messages sent from now on wait for the connection
  {
    MutexLock lock(&stream->mutex_);
    stub->async()->Session(stream->context_.get(), stream.get());
  }
  stream->AddHold();
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

void GrpcStream::Cancel() {
  MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void GrpcStream::Send(const protocol::ToCoordinator& message) {
  MutexLock lock(&mutex_);
  if (ended_) return;
  v1::ToCoordinator wire = proto::ToProto(message);
  if (wire.has_progress() || wire.has_heartbeat()) DropQueued(wire.body_case());
  outgoing_.push_back(std::move(wire));
  if (!writing_) WriteNext();
}

// A coordinator that resumes reading receives the newest Progress, not a queue
// of all earlier ones.
void GrpcStream::DropQueued(v1::ToCoordinator::BodyCase kind) {
  const auto queued = outgoing_.begin() + (writing_ ? 1 : 0);
  const auto same = [kind](const v1::ToCoordinator& message) {
    return message.body_case() == kind;
  };
  outgoing_.erase(std::remove_if(queued, outgoing_.end(), same),
                  outgoing_.end());
}

void GrpcStream::WriteNext() {
  writing_ = true;
  StartWrite(&outgoing_.front());
}

void GrpcStream::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  outgoing_.pop_front();
  writing_ = false;
  if (ok && !ended_ && !outgoing_.empty()) WriteNext();
}

void GrpcStream::OnReadDone(bool ok) {
  if (ok) {
    auto message = proto::FromProto(incoming_);
    if (message.ok()) {
      handler_->OnMessage(*std::move(message));
    } else if (undecodable_.ok()) {
      undecodable_ = absl::Status(
          message.status().code(),
          absl::StrCat("the coordinator said what cannot be understood: ",
                       message.status().message()));
      Cancel();
    }
    return StartRead(&incoming_);
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  RemoveHold();
}

void GrpcStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<GrpcStream> self = std::move(self_);
  {
    MutexLock lock(&mutex_);
    context_.reset();
  }
  handler_->OnClosed(undecodable_.ok() ? ToAbsl(status) : undecodable_);
}

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      Printable(status.error_message()));
}

}  // namespace lockstep::session

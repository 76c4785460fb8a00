#include "client/transport/common/communicator_state.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lockstep::transport {
namespace {

absl::Status Prefixed(const std::string& where, const absl::Status& error) {
  absl::Status told(error.code(), absl::StrCat(where, error.message()));
  error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    told.SetPayload(url, payload);
  });
  return told;
}

}  // namespace

absl::Status CommunicatorState::Run(std::span<const CollectiveOp> calls) {
  const bool open = (state_.fetch_add(1) & kFailed) == 0;
  if (open) {
    if (absl::Status done = executor_->Execute(calls); !done.ok()) Fail(done);
  }
  return Leave();
}

void CommunicatorState::Fail(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = Prefixed(where_, error);
    state_ |= kFailed;
  }
  executor_->Shutdown(error);
}

absl::Status CommunicatorState::status() const {
  if (!failed()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return error_;
}

void CommunicatorState::Close() {
  Fail(absl::AbortedError("the communicator was destroyed"));
  {
    MutexLock lock(&mutex_);
    while (state_.load() != kFailed) left_.Wait(&mutex_);
  }
  executor_.reset();
}

// After an error Close may wait for the last Run, and then destroy this object:
// so nothing is accessed after the unlock. Without an error no thread waits.
absl::Status CommunicatorState::Leave() {
  uint64_t state = state_.load();
  while ((state & kFailed) == 0) {
    if (state_.compare_exchange_weak(state, state - 1)) return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  --state_;
  left_.NotifyAll();
  return error_;
}

}  // namespace lockstep::transport

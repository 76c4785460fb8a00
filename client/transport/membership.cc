#include "client/transport/membership.h"

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

absl::Status Membership::Run(const std::vector<Call>& calls) {
  if (!Enter()) return status();
  if (absl::Status done = executor_->Execute(calls); !done.ok()) Fail(done);
  return Leave();
}

void Membership::Fail(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = Prefixed(where_, error);
  }
  executor_->Cut(error);
}

absl::Status Membership::status() const {
  MutexLock lock(&mutex_);
  return error_;
}

void Membership::Close() {
  Fail(absl::AbortedError("the communicator was destroyed"));
  {
    MutexLock lock(&mutex_);
    while (running_ > 0) left_.Wait(&mutex_);
  }
  executor_.reset();
}

bool Membership::Enter() {
  MutexLock lock(&mutex_);
  if (!error_.ok()) return false;
  ++running_;
  return true;
}

absl::Status Membership::Leave() {
  MutexLock lock(&mutex_);
  --running_;
  left_.NotifyAll();
  return error_;
}

}  // namespace lockstep::transport

#include "client/transport/membership.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/transport/operation.h"

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
  if (absl::Status done = Execute(calls); !done.ok()) Fail(done);
  Leave();
  return status();
}

absl::Status Membership::Execute(const std::vector<Call>& calls) {
  std::vector<std::unique_ptr<Operation>> operations;
  operations.reserve(calls.size());
  for (const Call& call : calls) {
    operations.push_back(MakeOperation(call, Wire{*link_, scratch_}));
    absl::Status started = operations.back()->Start();
    if (!started.ok()) return started;
  }
  for (auto& operation : operations) {
    absl::Status finished = operation->Finish();
    if (!finished.ok()) return finished;
  }
  return absl::OkStatus();
}

void Membership::Fail(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = Prefixed(where_, error);
  }
  link_->Cut();
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
  link_.reset();
}

bool Membership::Enter() {
  MutexLock lock(&mutex_);
  if (!error_.ok()) return false;
  ++running_;
  return true;
}

void Membership::Leave() {
  MutexLock lock(&mutex_);
  --running_;
  left_.NotifyAll();
}

}  // namespace lockstep::transport

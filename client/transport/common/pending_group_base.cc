#include "client/transport/common/pending_group_base.h"

#include "absl/strings/str_cat.h"
#include "client/transport/common/group_check.h"

namespace lockstep::transport {

absl::StatusOr<std::unique_ptr<Communicator>> PendingGroupBase::Connect(
    const std::vector<std::string>& handles, absl::Duration timeout) {
  const Deadline deadline(timeout);
  absl::Status sound = Open();
  sound.Update(CheckHandles(group_, handles, handle_));
  if (!sound.ok()) return sound;
  absl::Status met = ConnectAll(handles, deadline);
  if (absl::Status aborted = Close(); !aborted.ok()) met = aborted;
  if (met.ok()) return Finish();
  Discard();
  return met;
}

void PendingGroupBase::Abort(std::string_view cause) {
  MutexLock lock(&mutex_);
  if (!aborted_.ok()) return;
  aborted_ = absl::AbortedError(absl::string_view(cause.data(), cause.size()));
  if (!closed_) Interrupt();
}

absl::Status PendingGroupBase::Open() {
  MutexLock lock(&mutex_);
  if (!aborted_.ok() || !closed_) return aborted_;
  return absl::FailedPreconditionError(
      absl::StrCat("group '", group_.name, "' has been connected before"));
}

absl::Status PendingGroupBase::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  return aborted_;
}

}  // namespace lockstep::transport

// Sharded jobs: parameters are gathered at the beginning of a step. Also
// reproducible jobs: ranks submit leaves.

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

absl::Status Engine::CheckSharded(const char* call) const {
  if (values_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s in a job whose spec says sync: %s; it needs sync: reduce_scatter",
      call, negotiates() ? "negotiated" : "static"));
}

plan::Slice Engine::SliceOf(int parameter) const {
  const Layout& layout = versions_->current();
  const BucketStore::SlotRef place = layout.store().PlaceOf(parameter);
  const plan::Slot& slot = layout.bucket(place.bucket).slots[place.slot];
  // A bucket with leaves is reduced in slices, but every rank gets it whole.
  if (values_ == nullptr) return {.offset = 0, .count = slot.count};
  return plan::PartIn(slot, layout.SliceOf(place.bucket));
}

// Also allowed after the last step, so that its update can be read.
absl::Status Engine::GatherParameters(Stream* stream) {
  absl::Status may = CheckSharded("GatherParameters");
  if (may.ok()) may = failure();
  if (may.ok()) may = CheckStream(stream);
  if (!may.ok()) return may;
  if (stream != nullptr) AwaitStepBefore();
  {
    MutexLock lock(&mutex_);
    if (stream == nullptr && steps_.count() > 0) return NotWaitedFor();
  }
  const absl::StatusOr<uint64_t> number = values_->Begin();
  if (!number.ok()) return number.status();
  absl::Status begun =
      compute_.Perform(stream, [this, n = *number](KernelQueue& kernel_queue) {
        Layout& layout = versions_->current();
        layout.SetGather(n);
        absl::Status ready = kernel_queue.status();
        for (const Layout::Gather& gather : layout.gathers()) {
          if (ready.ok()) {
            ready = executor_.MarkReady(gather.transfer, kernel_queue.Done());
          }
        }
        if (!ready.ok()) Fail(-1, ready);
        return ready;
      });
  gather_driver_ = stream == nullptr ? Event() : compute_.Driver(*stream);
  return begun;
}

absl::Status Engine::AwaitParameter(int parameter, Stream* stream) {
  absl::Status may = CheckSharded("AwaitParameter");
  if (may.ok()) may = CheckKnown(parameter);
  if (may.ok()) may = CheckStream(stream);
  if (!may.ok()) return may;
  const absl::StatusOr<uint64_t> number = values_->Newest();
  if (!number.ok()) return number.status();
  if (stream == nullptr) {
    absl::Status driven = gather_driver_.Wait();
    if (!driven.ok()) return driven;
    const absl::StatusOr<Event> done = values_->Await(parameter, *number);
    if (!done.ok()) return done.status();
    if (absl::Status came = done->Wait(); !came.ok()) return came;
    return failure();  // a completed event does not mean success
  }
  return compute_.Perform(
      stream,
      [this, parameter, stream, n = *number](KernelQueue&) -> absl::Status {
        const absl::StatusOr<Event> done = values_->Await(parameter, n);
        if (!done.ok()) return done.status();
        // On a host's stream the gather is complete: only device events have a
        // state.
        return done->state() == nullptr ? absl::OkStatus()
                                        : compute_.WaitFor(*stream, *done);
      });
}

// --- Leaves -----------------------------------------------------------------

absl::Status Engine::CountLeaves(const Layout& layout) {
  leaves_ = layout.leaves();
  if (leaves_ == 0) return absl::OkStatus();
  std::vector<int> uses = options_.uses;
  for (size_t p = 0; p < uses.size(); ++p) {
    if (uses[p] != 1) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s has %d uses: with reproducible.leaves each Submit is a leaf, "
          "which has all of its gradient",
          options_.names[p], uses[p]));
    }
    uses[p] = layout.store().LeavesOf(static_cast<int>(p));
  }
  MutexLock lock(&mutex_);
  tracker_ = GradientTracker(options_.names, std::move(uses));
  return absl::OkStatus();
}

}  // namespace lockstep::gradient

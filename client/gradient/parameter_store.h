// The parameters of a job whose ranks update slices of them: their memory, and
// which of them are there.
//
//   memory   laid out like the gradients' buckets (plan/shard.h)
//   step     Begin ─▶ gathers ─▶ Arrived(2) Arrived(1) Arrived(0) ─▶ EndStep
//                                └▶ Await of what bucket 2 holds returns
//
// A gather writes what other ranks own and only reads what this rank does. So a
// step that is given up leaves this rank's slices as they were, and a gather
// that was interrupted can be done again.
//
// Steps may be begun ahead of those that run: gathers are counted, and who
// waits does so for the newest that was begun when it asked.
//
// Threads: any.
// Errors:  FailedPrecondition for calls in the wrong order; after Fail, what it
//          was given.

#ifndef LOCKSTEP_CLIENT_GRADIENT_PARAMETER_STORE_H_
#define LOCKSTEP_CLIENT_GRADIENT_PARAMETER_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/gradient/layout.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class ParameterStore {
 public:
  // Zeros. `layout` is the only one there will be, and outlives it. Errors of
  // `allocate`.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(
      const Layout& layout,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The whole parameter.
  absl::Span<std::byte> View(int parameter) const;
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // Tells each bucket's communicator of its memory, in the order of gathers.
  absl::Status Enlist(absl::FunctionRef<Communicator*(int)> communicator,
                      const BucketStore::Enlist& enlist);

  void AddReaches(std::vector<transport::Reach>* reaches) const {
    for (const auto& one : enlistments_) reaches->push_back(one->reach());
  }

  // The gathers of the next step are about to be launched: their number.
  absl::StatusOr<uint64_t> Begin();
  // Begin was called in this step.
  absl::Status CheckBegun() const;
  void EndStep();

  // The bucket's gather of that number is through once `done` has come.
  void Arrived(int bucket, uint64_t number, Event done);
  // The number of the newest gathers; FailedPrecondition before the first.
  absl::StatusOr<uint64_t> Newest() const;
  // Blocks until the parameter's gather of that number, or a later one, is
  // launched; when it is through.
  absl::StatusOr<Event> Await(int parameter, uint64_t number);

  // Nobody waits any more.
  void Fail(const absl::Status& error);
  // All that was begun has arrived.
  bool idle() const;

 private:
  explicit ParameterStore(const Layout& layout) : layout_(layout) {}

  struct Arrival {
    uint64_t number = 0;
    Event done;
  };

  const Layout& layout_;
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
  // Before the memory goes.
  std::vector<std::unique_ptr<transport::Enlistment>> enlistments_;

  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  bool in_this_step_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // by bucket
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_PARAMETER_STORE_H_

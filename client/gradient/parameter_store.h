// The parameters of a sharded job: their memory, and which of them are
// gathered.
//
//   memory   laid out like the gradients' buckets (plan/shard.h)
//   step     Begin ─▶ gathers ─▶ Arrived(2) Arrived(1) Arrived(0) ─▶ EndStep
//                                └▶ Await of a parameter in bucket 2 returns
//
// A gather writes the slices of other ranks and only reads this rank's. So a
// step that is given up leaves this rank's slices unchanged, and an interrupted
// gather can be repeated.
//
// Steps may begin ahead of those that run: gathers are numbered, and a waiter
// waits for the newest gather begun when it called.
//
// Threads: any.
// Errors:  FailedPrecondition for calls in the wrong order; after Fail, its
//          argument.

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
  // Allocates zeros. `layout` must be the job's only layout, and outlive the
  // store. Errors of `allocate`.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(
      const Layout& layout,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The whole parameter.
  absl::Span<std::byte> View(int parameter) const;
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // Registers each bucket's memory with its communicator, in order of gathers.
  absl::Status RegisterBuffers(
      absl::FunctionRef<Communicator*(int)> communicator,
      const BucketStore::RegisterFn& register_buffer);

  void AddRegistrationKinds(
      std::vector<transport::RegistrationKind>* kinds) const {
    for (const auto& one : registrations_) kinds->push_back(one->kind());
  }

  // Call before the next step's gathers are launched; returns their number.
  absl::StatusOr<uint64_t> Begin();
  // FailedPrecondition unless Begin was called in this step.
  absl::Status CheckBegun() const;
  void EndStep();

  // The bucket's gather of that number completes with `done`.
  void Arrived(int bucket, uint64_t number, Event done);
  // The number of the newest gathers; FailedPrecondition before the first.
  absl::StatusOr<uint64_t> Newest() const;
  // Blocks until the parameter's gather of that number, or a later one, is
  // launched; returns its completion event.
  absl::StatusOr<Event> Await(int parameter, uint64_t number);

  // Fails all current and future waiters with `error`.
  void Fail(const absl::Status& error);
  // Whether every gather that was begun has arrived.
  bool idle() const;

 private:
  explicit ParameterStore(const Layout& layout) : layout_(layout) {}

  struct Arrival {
    uint64_t number = 0;
    Event done;
  };

  const Layout& layout_;
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
  // Declared after memory_: deregistered before it is freed.
  std::vector<std::unique_ptr<transport::BufferRegistration>> registrations_;

  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  bool in_this_step_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // by bucket
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_PARAMETER_STORE_H_

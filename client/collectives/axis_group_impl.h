// A group of ranks and the communicator that connects them.
//
//   declared ──Connect──▶ connected ──Close──▶ closed
//
// Threads: all methods from any thread; the calls that they serve from one.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_IMPL_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_IMPL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/collectives/device_calls.h"
#include "client/transport/common/scratch.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/axis_group.h"
#include "lockstep/communicator.h"
#include "protocol/progress.h"

namespace lockstep {

struct AxisGroupOptions {
  std::vector<std::string> axes = {};
  std::vector<std::vector<int>> index_groups = {};
  int size = 1;
  int index = 0;                // of this rank
  std::vector<int> ranks = {};  // of the job, by index; empty: the indices
  bool even = true;  // all groups of the same axes have this group's size
  bool checks_axes = false;  // operations must name no other axes
  // Before each operation that moves data (but psend and precv) the members
  // compare what they call. If it differs, all get InvalidArgument with every
  // member's call, and the communicator is aborted (not on a device, where
  // nothing is enqueued then): nothing hangs. The same on all members.
  bool checked = false;
};

// The kind of memory that a group's operations move.
struct GroupMemory {
  // Null: the host's.
  std::shared_ptr<transport::DeviceContext> device;
  // Memory of that kind, for steps in between.
  std::function<absl::StatusOr<ArenaBuffer>(size_t bytes)> allocate;
};

class AxisGroup::Impl {
 public:
  // Returns the cause of an error in the call of this name. A null function:
  // the error itself.
  using Cause =
      std::function<absl::Status(const std::string& call, const absl::Status&)>;
  struct Causes {
    // An error of the communicator; may block until its cause is known.
    Cause of_communicator;
    // An error of this rank alone, in values that other ranks do not know: they
    // are in the same call, or will be, so it ends the epoch.
    Cause of_values;
  };

  explicit Impl(AxisGroupOptions options, Causes causes = {});

  const AxisGroupOptions& options() const { return options_; }
  // The members' ranks, for messages.
  const std::vector<int>& ranks() const { return options_.ranks; }

  // What still runs on the own stream ends with an error.
  ~Impl() { Close(); }

  // Once. The communicator's ranks are the members in the order of their
  // indices.
  void Connect(std::shared_ptr<Communicator> communicator, GroupMemory memory);
  // Drops the communicator, which is destroyed once no call uses it.
  void Close();

  // FailedPrecondition before Connect and after Close, and the cause if the
  // communicator has failed: `call` is to use it.
  absl::StatusOr<std::shared_ptr<Communicator>> CommunicatorFor(
      const std::string& call);
  // The group's own stream, on which `call` is to run. FailedPrecondition as
  // above; errors of the device.
  absl::StatusOr<Stream*> OwnStream(const std::string& call);
  GroupMemory memory() const;
  // What runs the calls on the device; null before Connect, and for host
  // memory.
  collectives::DeviceCalls* device_calls() const {
    return connected_device_.load(std::memory_order_acquire);
  }

  // Runs what `enqueue` enqueues on the own stream, as the operation `call`,
  // and waits for it. `signature` must be the same on all members. Errors as
  // PendingCollective::Wait.
  absl::Status RunAndWait(
      const std::string& call, const std::string& signature,
      absl::FunctionRef<absl::Status(Communicator&, Stream&)> enqueue);

  // Enqueues the comparison of a checked group; nothing in another one. On a
  // device waits for it. InvalidArgument on a device, if the members differ.
  absl::Status CompareSignatures(
      const std::string& signature,
      const std::shared_ptr<Communicator>& communicator, Stream& stream);

  // `error`: of a call whose communicator has failed. Once the group is closed
  // that is the cause, and the session may be gone.
  absl::Status Explained(const std::string& call, const absl::Status& error);
  // `error`: of values that only this rank has.
  absl::Status Refused(const std::string& call, const absl::Status& error);

  const std::shared_ptr<transport::ScratchPool>& pool() const { return pool_; }
  // Held while a call is enqueued, which may block: streams run inline. Calls
  // from several threads are then in some order, the same on no other rank.
  Mutex& call_mutex() { return call_mutex_; }
  // `call` is being enqueued.
  void BeginCall(std::shared_ptr<const std::string> call);
  // It is complete once `done` is; null: nothing was enqueued.
  void EndCall(const Event* done);
  // The calls so far; names no communicator.
  protocol::GroupProgress progress() const;

 private:
  absl::Status NotConnected(const std::string& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AxisGroupOptions options_;
  const Causes causes_;
  const std::shared_ptr<transport::ScratchPool> pool_ =
      std::make_shared<transport::ScratchPool>();
  Mutex call_mutex_;
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Communicator> communicator_ ABSL_GUARDED_BY(mutex_);
  GroupMemory memory_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<collectives::DeviceCalls> device_calls_
      ABSL_GUARDED_BY(mutex_);
  std::atomic<collectives::DeviceCalls*> connected_device_{nullptr};
  // Calls that were not complete when it was last looked.
  struct Outstanding {
    std::shared_ptr<const std::string> call;
    std::optional<Event> done;  // none: being enqueued
  };
  void DropCompleted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::deque<Outstanding> outstanding_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
};

// A connected group of a communicator that outlives it, without a session.
AxisGroup MakeAxisGroup(Communicator* communicator,
                        AxisGroupOptions options = {}, GroupMemory memory = {});

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_IMPL_H_

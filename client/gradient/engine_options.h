// What an engine (engine.h) is made of: the step that it begins with, the plan
// and who runs it, and whom it tells of errors and of its end.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ENGINE_OPTIONS_H_
#define LOCKSTEP_CLIENT_GRADIENT_ENGINE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/executor/executor.h"
#include "client/gradient/bucket_store.h"
#include "client/gradient/ending.h"
#include "client/gradient/step_gate.h"
#include "lockstep/arena.h"
#include "lockstep/gradient_sync.h"
#include "plan/ir.h"
#include "protocol/evidence.h"
#include "protocol/negotiation.h"
#include "protocol/types.h"

namespace lockstep::gradient {

struct EngineOptions {
  EpochId epoch;
  uint64_t first_step = 0;
  // How many steps are enqueued before the host has acted on the verdict of an
  // earlier one. Only where the device decides.
  int run_ahead = 0;
  // Bucket sets beside those of the steps in flight: 1 where peers may write to
  // buckets that they are not to write to (decision 27, 2). With run_ahead.
  int spare_sets = 0;
  Uneven uneven = Uneven::kStop;
  // On a device and in negotiated mode there is always a helper.
  Overlap overlap = Overlap::kThread;
  plan::Plan plan;
  int rank = 0;
  // Runs the plan; owns its communicators and the DeviceContext that accesses
  // the gradients. The engine sets its program and closes it.
  std::shared_ptr<executor::Executor> executor;
  // The rank's parameters in registration order, and their uses.
  std::vector<std::string> names;
  std::vector<int> uses;
  // Allocates gradient memory that the executor's DeviceContext can access.
  std::function<absl::StatusOr<ArenaBuffer>(size_t)> allocate;
  // Registers memory that every step sends with a communicator; all its ranks
  // call it together. May be empty.
  BucketStore::RegisterFn register_buffer;
  const Clock* clock = nullptr;
  // Called once, from any thread, with the first error: its communicator of the
  // plan, or -1 for a failure of this rank alone.
  std::function<void(int communicator, const absl::Status&)> on_failure;
  // As GradientSync::OnMoved; may be empty.
  std::function<void()> on_moved;
  // sync: reduce_scatter; the plan's buckets are sharded.
  bool sharded = false;
  // Whether progress() names parameters that no rank, or only other ranks,
  // submit.
  OnUnsubmitted on_unsubmitted = OnUnsubmitted::kIgnore;
  // As GradientSync::ScaleLossOnDevice. FailedPrecondition of Create where the
  // host decides.
  std::optional<DeviceLossScale> loss_scale = {};
  // Negotiated mode: sends the coordinator the parameters that this rank will
  // submit in a pass, then each submitted one, by index in the plan. Both null:
  // static mode. They must not block.
  std::function<void(protocol::Announce)> announce;
  std::function<void(uint64_t pass, uint32_t parameter)> submitted;
  // Called once the last step of all ranks has passed, before any waiter for it
  // resumes.
  std::function<void(Ending)> on_last;
  // Called likewise once the verdict has passed after which the job grows: why
  // later calls fail, and what the session reports to the coordinator.
  std::function<void(const absl::Status&, protocol::EpochReport)> on_grow;
  // Called by a waiter for a verdict: maps the first error to its cause.
  std::function<absl::Status(const absl::Status&)> explain;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ENGINE_OPTIONS_H_

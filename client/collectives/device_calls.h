// Runs lowered collectives of one group on streams of a device.
//
//   stream     [kernels]─┐            ┌─[kernels][copy index fault][check]
//   communicator         └─[transfer]─┘                             (host)
//
// A group has one block of scratch memory, as large as its largest collective
// so far needs. Its calls use it one after the other: a call on another stream
// waits on the device for the last one. A group's transfers run one after the
// other anyway. So a call allocates only if it needs more memory than all calls
// before it.
//
// Run returns once everything is enqueued: kernels can be launched only behind
// transfers that are queued on the device, so it waits for the launch of the
// transfers before them (CudaStream::Ready), not for the device.
//
// Threads: one at a time.
// Lifetime: the destructor waits for the calls that use its memory.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_DEVICE_CALLS_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_DEVICE_CALLS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/collectives/call_stream.h"
#include "client/collectives/local_steps.h"
#include "client/collectives/lowered.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::collectives {

class DeviceCalls {
 public:
  using Allocate = std::function<absl::StatusOr<ArenaBuffer>(size_t bytes)>;

  DeviceCalls(std::shared_ptr<transport::DeviceContext> context,
              Allocate allocate)
      : context_(std::move(context)), allocate_(std::move(allocate)) {}
  ~DeviceCalls();
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // Allocates what Run of `lowered` needs. Slow, and may wait for the device
  // and for the calls so far. ResourceExhausted.
  absl::Status Reserve(const Lowered& lowered);

  // InvalidArgument for a stream of another kind; Unimplemented for a captured
  // stream if the call uses scratch memory, which a graph would use at any
  // later time.
  absl::Status CheckStream(const Stream& stream, bool uses_memory) const;

  // Enqueues a call; `memory` has no scratch memory yet. Errors: those of
  // CheckStream and Reserve, with nothing enqueued; the communicator's and the
  // device's. An index that no member has becomes the error of the stream and
  // of `outcome` (which may be null): InvalidArgument. Its row has zeros.
  absl::Status Run(const Lowered& lowered, CallMemory memory,
                   Communicator& communicator, Stream& stream,
                   std::shared_ptr<CallOutcome> outcome);

  // Memory of one call: on the device, and staging.
  struct DeviceScratch {
    std::byte* scratch;
    std::byte* staging;
  };
  // Calls `enqueue` with this much memory, for what it enqueues on `stream`:
  // calls before and after it wait for each other on the device. Errors: those
  // of Reserve, with nothing enqueued; that of `enqueue`.
  absl::Status RunWithMemory(
      size_t scratch_bytes, size_t staging_bytes, Stream& stream,
      absl::FunctionRef<absl::Status(const DeviceScratch& memory)> enqueue);

  transport::DeviceContext& context() const { return *context_; }

  // Compares what the members call, and waits for the result. All members get
  // the same: nothing of a collective is enqueued if they differ, so that the
  // communicator need not be aborted, and an abort could end the comparison of
  // a slower member. For a stream that CheckStream has accepted.
  // InvalidArgument only if they differ, with every member's call; errors of
  // the communicator, the device and of Reserve.
  absl::Status CompareSignatures(const std::string& own,
                                 absl::Span<const int> ranks,
                                 Communicator& communicator, Stream& stream);

 private:
  absl::Status ReserveMemory(size_t scratch_bytes, size_t staging_bytes);

  absl::Status Enqueue(const Lowered& lowered, const CallMemory& memory,
                       Communicator& communicator, Stream& stream,
                       const std::shared_ptr<CallOutcome>& outcome);
  absl::Status EnqueueLocalSteps(absl::Span<const Step> steps,
                                 const CallMemory& memory, Stream& stream,
                                 const std::shared_ptr<CallOutcome>& outcome);
  absl::Status GatherSignatures(const std::string& own,
                                Communicator& communicator, Stream& stream);

  // Both blocks of memory begin with the fault of the last call's indices.
  kernels::IndexFault* fault() const;
  kernels::IndexFault* staged_fault() const;
  std::byte* scratch() const;
  std::byte* staging() const;

  const std::shared_ptr<transport::DeviceContext> context_;
  const Allocate allocate_;
  ArenaBuffer scratch_;
  ArenaBuffer staging_;
  Event last_;  // after the last use of the memory
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_DEVICE_CALLS_H_

// Runs collectives over named axes among the ranks of a group.
//
//   auto group = session->Group({"data"});           // declared ...
//   sync->Seal();                                    // ... and connected
//   auto psum = group->Prepare({.kind = AxisCollectiveKind::kPsum},
//                              {{DType::kF32, {1024}}});
//   for (;;) {
//     auto pending = psum->Start({x}, {x});          // on the group's stream
//     ...                                            // meanwhile
//     pending->Wait();                               // both: RunAndWait
//   }
//
// All members make the same calls in the same order. They run in this order, on
// the group's own stream (Start) or on a stream of the caller (Run). A caller
// that changes the stream makes the new one wait for an event of the old one.
// Operations of different groups run at the same time; on a device the ranks
// must call them in one order, and not while gradients are being reduced.
//
// A prepared collective is reused: its steps are made once, and a call only
// enqueues them. Scratch memory is kept for the next call.
//
// Progress:  a completed operation is progress of its rank. A program that
//            calls none for longer than timeouts.progress declares it
//            (Session::Busy).
// Memory:    host memory, the arena (Session::Allocate: not copied), or with
//            transport: nccl that of the device. Valid and unchanged until the
//            operation is complete.
// Device:    calls return once they are enqueued, which may take until the
//            transfers before them are launched; they do not wait for the
//            device. The first call that needs more scratch memory than all
//            before allocates it; Prepare of a connected group does it ahead.
//            The comparison of a checked group waits for all members.
// Threads:   one thread at a time for a group and what it prepared; Wait from
//            any.
// Ownership: handles are values, copies refer to the same group. They are
//            destroyed before the session.
// Errors:    Prepare: as OutputTypes, and InvalidArgument for groups of
//            different sizes where the operation needs equal ones. Start and
//            Run: InvalidArgument for null memory of tensors with elements,
//            FailedPrecondition before the group is connected,
//            ResourceExhausted for want of scratch memory, InvalidArgument for
//            a stream of other memory than the group's (FailedPrecondition, if
//            that is the host's), Unimplemented on a device for a captured
//            stream if the operation needs scratch memory, as ragged ones do,
//            all with nothing enqueued; after the end of the epoch its cause.
//            Errors that values cause (an index that no member has) are those
//            of Wait, and of the stream; on a device the row of such an index
//            has zeros. There, too, a member that expects other numbers of
//            ragged rows than it is sent waits until the epoch ends.

#ifndef LOCKSTEP_AXIS_GROUP_H_
#define LOCKSTEP_AXIS_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/axis_collective.h"
#include "lockstep/export.h"
#include "lockstep/stream.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

// An operation that Start enqueued. Copies refer to the same one.
class LOCKSTEP_EXPORT PendingCollective {
 public:
  class LOCKSTEP_HIDDEN State;
  explicit PendingCollective(std::shared_ptr<State> state);

  // True once it has run. Wait then does not block.
  bool Done() const;
  // Another stream can wait for it: stream.WaitFor(pending.event()).
  Event event() const;
  // Blocks until it has run. If it failed, or a later operation of the group
  // did: the error; if the group cannot be used any more, the cause of the
  // epoch's end (Session::status).
  absl::Status Wait() const;

 private:
  std::shared_ptr<State> state_;
};

class LOCKSTEP_EXPORT PreparedCollective {
 public:
  class LOCKSTEP_HIDDEN Impl;
  explicit PreparedCollective(std::shared_ptr<const Impl> impl);

  const std::vector<TensorType>& outputs() const;

  // Enqueues the operation. The memory holds tensors of the prepared types, row
  // by row. Inputs and outputs do not overlap, but an output of a reduction or
  // of pbroadcast may be its input, and that of ragged_all_to_all its second
  // input. Inputs that are not read (of members other than the root) may be
  // null. The vectors of ragged_all_to_all are host memory, read at once; other
  // memory is read as the stream reaches the operation.
  //
  // Start: on the group's stream, behind the events in `after`.
  // Run: on a stream of the caller. RunAndWait: as Start, then Wait.
  absl::StatusOr<PendingCollective> Start(
      absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
      absl::Span<const Event> after = {}) const;
  absl::Status Run(absl::Span<const void* const> inputs,
                   absl::Span<void* const> outputs, Stream& stream) const;
  absl::Status RunAndWait(absl::Span<const void* const> inputs,
                          absl::Span<void* const> outputs) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

class LOCKSTEP_EXPORT AxisGroup {
 public:
  class LOCKSTEP_HIDDEN Impl;
  explicit AxisGroup(std::shared_ptr<Impl> impl);

  const std::vector<std::string>& axes() const;
  const std::vector<std::vector<int>>& index_groups() const;
  int size() const;   // members
  int index() const;  // of this rank among them

  // `op` names no axes and index groups, or those of the group. May be called
  // before the group is connected.
  absl::StatusOr<PreparedCollective> Prepare(
      const AxisCollective& op, absl::Span<const TensorType> inputs) const;

  // Internal: for other parts of the library.
  Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_AXIS_GROUP_H_

// Runs collectives over named axes on a communicator: host memory.
//
//   Prepare(op, types) ─▶ PreparedCollective ──Run(pointers, stream)──▶
//   enqueued
//
// A prepared collective is reused: its steps are made once, and Run only
// enqueues them. Scratch memory is kept for the next call.
//
// Threads: Prepare and Run of one group from one thread at a time.
// Errors:  Prepare: as OutputTypes, and InvalidArgument for groups of different
//          sizes where the operation needs equal ones. Run: InvalidArgument for
//          null memory, with nothing enqueued; FailedPrecondition for a stream
//          that is not a HostStream; ResourceExhausted for want of scratch
//          memory; the communicator's. Errors that values
//          cause (an index that no member has) become the stream's.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/collectives/lowered.h"
#include "client/transport/common/scratch.h"
#include "lockstep/axis_collective.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::collectives {

struct CallMemory;

struct AxisGroupOptions {
  bool even = true;  // all groups of the same axes have this group's size
  // Before each operation that moves data (but psend and precv) the members
  // compare what they call. If it differs, all get InvalidArgument with every
  // member's call as their stream's error, and the communicator is aborted:
  // nothing hangs. The same on all members.
  bool checked = false;
};

class PreparedCollective {
 public:
  const std::vector<TensorType>& outputs() const { return outputs_; }

  // Enqueues the operation. The memory holds tensors of the prepared types, row
  // by row. Inputs and outputs do not overlap, but an output of a reduction or
  // of pbroadcast may be its input, and that of ragged_all_to_all its second
  // input. Inputs that are not read (of members other than the root) may be
  // null. The vectors of ragged_all_to_all are read at once, other memory as
  // the stream reaches the operation.
  absl::Status Run(absl::Span<const void* const> inputs,
                   absl::Span<void* const> outputs, Stream& stream) const;

 private:
  friend class AxisGroup;
  struct CallInFlight;
  struct SignatureExchange;

  absl::Status EnqueueSteps(absl::Span<const void* const> inputs,
                            absl::Span<void* const> outputs,
                            HostStream& stream) const;
  absl::Status CheckSignatures(HostStream& stream) const;

  absl::Status Enqueue(const std::shared_ptr<CallInFlight>& call,
                       HostStream& stream) const;
  static absl::Status RunLocalSteps(const CallInFlight& call, size_t begin,
                                    size_t end);
  absl::Status Call(const Step& step, const CallMemory& memory,
                    Stream& stream) const;

  Communicator* communicator_ = nullptr;
  std::shared_ptr<transport::ScratchPool> pool_;
  AxisCollective op_;
  std::vector<TensorType> inputs_, outputs_;
  std::shared_ptr<const Lowered> lowered_;
  std::shared_ptr<const std::string> signature_;  // null: not checked
};

class AxisGroup {
 public:
  // The communicator's ranks are the members in the order of their indices, and
  // it outlives the group and what the group enqueues.
  explicit AxisGroup(Communicator* communicator,
                     const AxisGroupOptions& options = {})
      : communicator_(communicator), options_(options) {}

  int size() const { return communicator_->size(); }
  int index() const { return communicator_->rank(); }
  Communicator& communicator() const { return *communicator_; }

  absl::StatusOr<PreparedCollective> Prepare(
      const AxisCollective& op, absl::Span<const TensorType> inputs) const;

 private:
  Communicator* const communicator_;
  const AxisGroupOptions options_;
  const std::shared_ptr<transport::ScratchPool> pool_ =
      std::make_shared<transport::ScratchPool>();
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_AXIS_GROUP_H_

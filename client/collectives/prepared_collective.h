// Prepares collectives of a group, and runs them on streams of the host or of
// a device.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_PREPARED_COLLECTIVE_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_PREPARED_COLLECTIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/collectives/axis_group_impl.h"
#include "client/collectives/call_stream.h"
#include "client/collectives/local_steps.h"
#include "client/collectives/lowered.h"
#include "lockstep/axis_group.h"

namespace lockstep {

class PreparedCollective::Impl {
 public:
  static absl::StatusOr<std::shared_ptr<const Impl>> Make(
      std::shared_ptr<AxisGroup::Impl> group, AxisCollective op,
      absl::Span<const TensorType> inputs);

  const std::vector<TensorType>& outputs() const { return outputs_; }
  AxisGroup::Impl& group() const { return *group_; }
  // "psum over data", for messages.
  const std::string& name() const { return *name_; }
  // As AxisGroup::Impl::BeginCall.
  void BeginCall() const { group_->BeginCall(name_); }

  // Enqueues one call, and returns the communicator that it uses. Errors of
  // local work are also noted in `outcome`, if it is not null.
  absl::StatusOr<std::shared_ptr<Communicator>> Run(
      absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
      Stream& stream, std::shared_ptr<collectives::CallOutcome> outcome) const;

 private:
  struct CallInFlight;

  explicit Impl(std::shared_ptr<AxisGroup::Impl> group)
      : group_(std::move(group)) {}

  absl::Status CheckMemory(absl::Span<const void* const> inputs,
                           absl::Span<void* const> outputs) const;
  absl::StatusOr<std::shared_ptr<Communicator>> RunOnDevice(
      absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
      collectives::DeviceCalls& device, Stream& stream,
      std::shared_ptr<collectives::CallOutcome> outcome) const;
  absl::Status EnqueueSteps(absl::Span<const void* const> inputs,
                            absl::Span<void* const> outputs,
                            const std::shared_ptr<Communicator>& communicator,
                            collectives::CallStream& stream) const;
  absl::Status Enqueue(const std::shared_ptr<CallInFlight>& call,
                       Communicator& communicator,
                       collectives::CallStream& stream) const;
  static absl::Status RunLocalSteps(const CallInFlight& call, size_t begin,
                                    size_t end);

  const std::shared_ptr<AxisGroup::Impl> group_;
  AxisCollective op_;
  std::shared_ptr<const std::string> name_;
  std::vector<TensorType> inputs_, outputs_;
  std::shared_ptr<const collectives::Lowered> lowered_;
  std::shared_ptr<const std::string> signature_;  // null: not checked
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_PREPARED_COLLECTIVE_H_

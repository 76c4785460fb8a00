#include "client/collectives/prepared_collective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"
#include "client/collectives/device_calls.h"
#include "client/collectives/lowering.h"
#include "client/collectives/ragged.h"
#include "client/collectives/shapes.h"
#include "client/collectives/signature.h"
#include "client/collectives/signature_check.h"
#include "client/collectives/transfer_steps.h"

namespace lockstep {

using collectives::CallMemory;
using collectives::CallOutcome;
using collectives::CallStream;
using collectives::IsLocal;
using collectives::Lowered;
using collectives::Step;

// One call: what its steps use, kept until the last one has run.
struct PreparedCollective::Impl::CallInFlight {
  CallMemory memory;
  std::shared_ptr<transport::ScratchPool> pool;
  transport::Scratch scratch;
  std::shared_ptr<const Lowered> lowered;
  std::shared_ptr<Communicator> communicator;
};

namespace {

using Kind = AxisCollectiveKind;

bool TakesUnevenGroups(const AxisCollective& op) {
  switch (op.kind) {
    case Kind::kPvary:
    case Kind::kAxisIndex:
    case Kind::kAxisSize: return true;
    case Kind::kReduce: return false;  // its root must be in every group
    default: return collectives::ReductionOf(op).has_value();
  }
}

// Reductions and pbroadcast, whose outputs may be their inputs.
bool WorksInPlace(const AxisCollective& op) {
  return TakesUnevenGroups(op) || op.kind == Kind::kPbroadcast ||
         op.kind == Kind::kReduce;
}

// All members take part at the same time, so they can compare their calls.
bool MembersMeet(Kind kind) {
  switch (kind) {
    case Kind::kAxisIndex:
    case Kind::kAxisSize:
    case Kind::kPvary:
    case Kind::kOwnSlice:
    case Kind::kPsend:
    case Kind::kPrecv: return false;
    default: return true;
  }
}

bool IsRagged(Kind kind) {
  return kind == Kind::kRaggedAllToAll ||
         kind == Kind::kRaggedAllToAllTranspose;
}

// Input t may be null: this member's is not read.
bool MayBeNull(const AxisCollective& op, size_t t, bool is_root) {
  switch (op.kind) {
    case Kind::kPbroadcast:
    case Kind::kScatter: return !is_root;
    case Kind::kRaggedAllToAllTranspose: return t == 5;
    case Kind::kPrecv: return true;
    default: return false;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCollective::Impl>>
PreparedCollective::Impl::Make(std::shared_ptr<AxisGroup::Impl> group,
                               AxisCollective op,
                               absl::Span<const TensorType> inputs) {
  const AxisGroupOptions& options = group->options();
  if (!options.even && !TakesUnevenGroups(op)) {
    return absl::InvalidArgumentError(absl::StrCat(
        AbslView(Name(op.kind)),
        ": takes index groups of equal size: only reductions take others"));
  }
  auto outputs = OutputTypes(op, options.size, options.index, inputs);
  if (!outputs.ok()) return outputs.status();
  auto lowered = collectives::Lower(op, options.size, options.index, inputs);
  if (!lowered.ok()) return lowered.status();
  std::shared_ptr<Impl> made(new Impl(std::move(group)));
  made->name_ = std::make_shared<const std::string>(absl::StrCat(
      AbslView(Name(op.kind)), " over ", absl::StrJoin(op.axes, ",")));
  made->inputs_.assign(inputs.begin(), inputs.end());
  made->outputs_ = *std::move(outputs);
  made->lowered_ = std::make_shared<const Lowered>(*std::move(lowered));
  if (options.checked && options.size > 1 && MembersMeet(op.kind)) {
    made->signature_ = std::make_shared<const std::string>(
        collectives::SignatureText(op, inputs));
  }
  made->op_ = std::move(op);
  // Before the group is connected: allocated by the first call.
  if (collectives::DeviceCalls* const device = made->group_->device_calls()) {
    absl::Status reserved = device->Reserve(*made->lowered_);
    if (!reserved.ok()) return reserved;
  }
  return made;
}

absl::Status PreparedCollective::Impl::CheckMemory(
    absl::Span<const void* const> inputs,
    absl::Span<void* const> outputs) const {
  const auto invalid = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(Name(op_.kind)), ": ", parts...));
  };
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    return invalid("got ", inputs.size(), " inputs and ", outputs.size(),
                   " outputs, not ", inputs_.size(), " and ", outputs_.size());
  }
  const bool is_root = group_->options().index == op_.root;
  for (size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t] == nullptr && collectives::ElementsOf(inputs_[t]) > 0 &&
        !MayBeNull(op_, t, is_root)) {
      return invalid("input ", t, " is null");
    }
  }
  for (size_t t = 0; t < outputs.size(); ++t) {
    if (outputs[t] == nullptr && collectives::ElementsOf(outputs_[t]) > 0) {
      return invalid("output ", t, " is null");
    }
    const bool in_place = t < inputs.size() && outputs[t] == inputs[t] &&
                          collectives::ElementsOf(inputs_[t]) > 0;
    if (in_place && !WorksInPlace(op_)) {
      return invalid("output ", t, " is its input: not in place");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Communicator>> PreparedCollective::Impl::Run(
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    Stream& stream, std::shared_ptr<CallOutcome> outcome) const {
  if (absl::Status right = CheckMemory(inputs, outputs); !right.ok()) {
    return right;
  }
  if (collectives::DeviceCalls* const device = group_->device_calls()) {
    return RunOnDevice(inputs, outputs, *device, stream, std::move(outcome));
  }
  auto* const host = dynamic_cast<HostStream*>(&stream);
  if (host == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        AbslView(Name(op_.kind)), ": the stream is not a stream of the host"));
  }
  auto communicator = group_->CommunicatorFor(name());
  if (!communicator.ok()) return communicator.status();
  CallStream call_stream(*host, std::move(outcome));
  if (signature_ != nullptr) {
    absl::Status enqueued = collectives::EnqueueSignatureCheck(
        signature_, group_->ranks(), *communicator, group_->pool(),
        call_stream);
    if (!enqueued.ok()) return enqueued;
  }
  const bool ragged = IsRagged(op_.kind);
  const absl::Status enqueued =
      ragged
          ? collectives::RunRagged(op_, inputs_, inputs, outputs, *communicator,
                                   group_->pool(), call_stream)
          : EnqueueSteps(inputs, outputs, *communicator, call_stream);
  if (ragged && absl::IsInvalidArgument(enqueued)) {
    return group_->Refused(name(), enqueued);
  }
  if (!enqueued.ok()) return enqueued;
  return communicator;
}

absl::StatusOr<std::shared_ptr<Communicator>>
PreparedCollective::Impl::RunOnDevice(
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    collectives::DeviceCalls& device, Stream& stream,
    std::shared_ptr<CallOutcome> outcome) const {
  const bool uses_memory = IsRagged(op_.kind) || signature_ != nullptr;
  absl::Status right = device.CheckStream(stream, uses_memory);
  if (!right.ok()) return right;
  auto communicator = group_->CommunicatorFor(name());
  if (!communicator.ok()) return communicator.status();
  if (signature_ != nullptr) {
    const absl::Status same = device.CompareSignatures(
        *signature_, group_->ranks(), **communicator, stream);
    const bool group_fails =
        absl::IsInvalidArgument(same) || !(*communicator)->status().ok();
    if (!same.ok()) return group_fails ? group_->Explained(name(), same) : same;
  }
  if (IsRagged(op_.kind)) {
    absl::Status enqueued = collectives::RunRaggedOnDevice(
        op_, inputs_, inputs, outputs, **communicator, device, stream,
        std::move(outcome));
    if (absl::IsInvalidArgument(enqueued)) {
      return group_->Refused(name(), enqueued);
    }
    if (!enqueued.ok()) return enqueued;
    return communicator;
  }
  CallMemory memory;
  memory.inputs.assign(inputs.begin(), inputs.end());
  memory.outputs.assign(outputs.begin(), outputs.end());
  absl::Status enqueued = device.Run(
      *lowered_, std::move(memory), **communicator, stream, std::move(outcome));
  if (!enqueued.ok()) return enqueued;
  return communicator;
}

absl::Status PreparedCollective::Impl::EnqueueSteps(
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    const std::shared_ptr<Communicator>& communicator,
    CallStream& stream) const {
  auto call = std::make_shared<CallInFlight>();
  call->memory.inputs.assign(inputs.begin(), inputs.end());
  call->memory.outputs.assign(outputs.begin(), outputs.end());
  call->lowered = lowered_;
  call->communicator = communicator;
  const bool uses_scratch = lowered_->scratch_bytes > 0;
  if (uses_scratch) {
    call->pool = group_->pool();
    absl::Status taken =
        call->pool->Take(lowered_->scratch_bytes, &call->scratch);
    if (!taken.ok()) return taken;
    call->memory.scratch = call->scratch.data();
  }
  const absl::Status status = Enqueue(call, *communicator, stream);
  const bool keeps_scratch =
      uses_scratch && (!status.ok() || !IsLocal(lowered_->steps.back()));
  if (keeps_scratch) stream.Enqueue([call] { return absl::OkStatus(); });
  return status;
}

absl::Status PreparedCollective::Impl::RunLocalSteps(const CallInFlight& call,
                                                     size_t begin, size_t end) {
  // What a failed transfer left in memory means nothing.
  if (begin > 0 && !call.communicator->status().ok()) return absl::OkStatus();
  for (size_t i = begin; i < end; ++i) {
    absl::Status status =
        collectives::RunLocalStep(call.lowered->steps[i], call.memory);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PreparedCollective::Impl::Enqueue(
    const std::shared_ptr<CallInFlight>& call, Communicator& communicator,
    CallStream& stream) const {
  const std::vector<Step>& steps = lowered_->steps;
  for (size_t i = 0; i < steps.size();) {
    if (!IsLocal(steps[i])) {
      absl::Status status = collectives::EnqueueTransfer(
          steps[i], call->memory, communicator, stream.stream());
      if (!status.ok()) return status;
      ++i;
      continue;
    }
    size_t end = i;
    while (end < steps.size() && IsLocal(steps[end])) ++end;
    stream.Enqueue([call, i, end] { return RunLocalSteps(*call, i, end); });
    i = end;
  }
  return absl::OkStatus();
}

}  // namespace lockstep

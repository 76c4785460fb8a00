#include "client/collectives/axis_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "base/check.h"
#include "client/collectives/local_steps.h"
#include "client/collectives/lowering.h"
#include "client/collectives/ragged.h"
#include "client/collectives/shapes.h"
#include "client/collectives/signature.h"

namespace lockstep::collectives {

// One call: what its steps use, kept until the last one has run.
struct PreparedCollective::CallInFlight {
  CallMemory memory;
  std::shared_ptr<transport::ScratchPool> pool;
  transport::Scratch scratch;
  std::shared_ptr<const Lowered> lowered;
};

namespace {

using Kind = AxisCollectiveKind;

bool TakesUnevenGroups(const AxisCollective& op) {
  switch (op.kind) {
    case Kind::kPvary:
    case Kind::kAxisIndex:
    case Kind::kAxisSize: return true;
    case Kind::kReduce: return false;  // its root must be in every group
    default: return ReductionOf(op).has_value();
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

absl::Status SendAndReceive(const Step& step, const CallMemory& memory,
                            Communicator& communicator, Stream& stream) {
  return communicator.Group([&]() -> absl::Status {
    for (const SendOrRecv& m : step.messages) {
      absl::Status status =
          m.send ? communicator.Send(memory.Read(m.buffer), m.bytes, DType::kU8,
                                     m.peer, stream)
                 : communicator.Recv(memory.Write(m.buffer), m.bytes,
                                     DType::kU8, m.peer, stream);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

}  // namespace

// The memory of one comparison: the own signature, then those of all members.
struct PreparedCollective::SignatureExchange {
  std::shared_ptr<transport::ScratchPool> pool;
  transport::Scratch memory;
  std::shared_ptr<const std::string> own;
};

absl::Status PreparedCollective::CheckSignatures(HostStream& stream) const {
  const auto exchange = std::make_shared<SignatureExchange>();
  exchange->pool = pool_;
  exchange->own = signature_;
  const int size = communicator_->size();
  absl::Status status = pool_->Take(
      kSignatureBytes * (static_cast<size_t>(size) + 1), &exchange->memory);
  if (!status.ok()) return status;
  std::byte* const own = exchange->memory.data();
  std::byte* const all = own + kSignatureBytes;
  stream.Enqueue([exchange, own] {
    WriteSignature(*exchange->own, own);
    return absl::OkStatus();
  });
  status =
      communicator_->AllGather(own, all, kSignatureBytes, DType::kU8, stream);
  stream.Enqueue([exchange, all, size, communicator = communicator_] {
    if (!communicator->status().ok()) return absl::OkStatus();
    const std::string fault = SignatureFault(all, size);
    if (fault.empty()) return absl::OkStatus();
    const std::string message =
        absl::StrCat("the ranks of a group call different operations: ", fault);
    communicator->Abort(message);
    return absl::InvalidArgumentError(message);
  });
  return status;
}

absl::Status PreparedCollective::Call(const Step& step,
                                      const CallMemory& memory,
                                      Stream& stream) const {
  const void* const in = memory.Read(step.in);
  void* const out = memory.Write(step.out);
  switch (step.kind) {
    case Step::Kind::kAllReduce:
      return communicator_->AllReduce(in, out, step.count, step.dtype, step.op,
                                      stream);
    case Step::Kind::kReduceScatter:
      return communicator_->ReduceScatter(in, out, step.count, step.dtype,
                                          step.op, stream);
    case Step::Kind::kAllGather:
      return communicator_->AllGather(in, out, step.count, step.dtype, stream);
    case Step::Kind::kBroadcast:
      return communicator_->Broadcast(out, step.count, step.dtype, step.index,
                                      stream);
    case Step::Kind::kAllToAll:
      return communicator_->AllToAll(in, out, step.count, step.dtype, stream);
    case Step::Kind::kMessages:
      return SendAndReceive(step, memory, *communicator_, stream);
    default: Fatal("a local step is no call of a communicator");
  }
}

absl::Status PreparedCollective::Run(absl::Span<const void* const> inputs,
                                     absl::Span<void* const> outputs,
                                     Stream& stream) const {
  const auto invalid = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(Name(op_.kind)), ": ", parts...));
  };
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    return invalid("got ", inputs.size(), " inputs and ", outputs.size(),
                   " outputs, not ", inputs_.size(), " and ", outputs_.size());
  }
  const bool is_root = communicator_->rank() == op_.root;
  for (size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t] == nullptr && ElementsOf(inputs_[t]) > 0 &&
        !MayBeNull(op_, t, is_root)) {
      return invalid("input ", t, " is null");
    }
  }
  for (size_t t = 0; t < outputs.size(); ++t) {
    if (outputs[t] == nullptr && ElementsOf(outputs_[t]) > 0) {
      return invalid("output ", t, " is null");
    }
    const bool in_place = t < inputs.size() && outputs[t] == inputs[t] &&
                          ElementsOf(inputs_[t]) > 0;
    if (in_place && !WorksInPlace(op_)) {
      return invalid("output ", t, " is its input: not in place");
    }
  }
  auto* const host = dynamic_cast<HostStream*>(&stream);
  if (host == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        AbslView(Name(op_.kind)), ": the stream is not a stream of the host"));
  }
  if (signature_ != nullptr) {
    absl::Status enqueued = CheckSignatures(*host);
    if (!enqueued.ok()) return enqueued;
  }
  if (IsRagged(op_.kind)) {
    return RunRagged(op_, inputs_, inputs, outputs, *communicator_, pool_,
                     *host);
  }
  return EnqueueSteps(inputs, outputs, *host);
}

absl::Status PreparedCollective::EnqueueSteps(
    absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
    HostStream& stream) const {
  auto call = std::make_shared<CallInFlight>();
  call->memory.inputs.assign(inputs.begin(), inputs.end());
  call->memory.outputs.assign(outputs.begin(), outputs.end());
  call->lowered = lowered_;
  const bool uses_scratch = lowered_->scratch_bytes > 0;
  if (uses_scratch) {
    call->pool = pool_;
    absl::Status taken = pool_->Take(lowered_->scratch_bytes, &call->scratch);
    if (!taken.ok()) return taken;
    call->memory.scratch = call->scratch.data();
  }
  const absl::Status status = Enqueue(call, stream);
  const bool keeps_scratch =
      uses_scratch && (!status.ok() || !IsLocal(lowered_->steps.back()));
  if (keeps_scratch) stream.Enqueue([call] { return absl::OkStatus(); });
  return status;
}

absl::Status PreparedCollective::RunLocalSteps(const CallInFlight& call,
                                               size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    absl::Status status = RunLocalStep(call.lowered->steps[i], call.memory);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PreparedCollective::Enqueue(
    const std::shared_ptr<CallInFlight>& call, HostStream& stream) const {
  const std::vector<Step>& steps = lowered_->steps;
  for (size_t i = 0; i < steps.size();) {
    if (!IsLocal(steps[i])) {
      absl::Status status = Call(steps[i], call->memory, stream);
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

absl::StatusOr<PreparedCollective> AxisGroup::Prepare(
    const AxisCollective& op, absl::Span<const TensorType> inputs) const {
  if (!options_.even && !TakesUnevenGroups(op)) {
    return absl::InvalidArgumentError(absl::StrCat(
        AbslView(Name(op.kind)),
        ": takes index groups of equal size: only reductions take others"));
  }
  auto outputs = OutputTypes(op, size(), index(), inputs);
  if (!outputs.ok()) return outputs.status();
  auto lowered = Lower(op, size(), index(), inputs);
  if (!lowered.ok()) return lowered.status();
  PreparedCollective prepared;
  prepared.communicator_ = communicator_;
  prepared.pool_ = pool_;
  prepared.op_ = op;
  prepared.inputs_.assign(inputs.begin(), inputs.end());
  prepared.outputs_ = *std::move(outputs);
  prepared.lowered_ = std::make_shared<const Lowered>(*std::move(lowered));
  if (options_.checked && size() > 1 && MembersMeet(op.kind)) {
    prepared.signature_ =
        std::make_shared<const std::string>(SignatureText(op, inputs));
  }
  return prepared;
}

}  // namespace lockstep::collectives

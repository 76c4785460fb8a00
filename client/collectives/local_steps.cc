#include "client/collectives/local_steps.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::collectives {
namespace {

using LocalKind = kernels::LocalStep::Kind;

const std::byte* Bytes(const void* at) {
  return static_cast<const std::byte*>(at);
}
std::byte* Bytes(void* at) { return static_cast<std::byte*>(at); }

LocalKind LocalKindOf(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::kCopyBlocks: return LocalKind::kCopyBlocks;
    case Step::Kind::kZero: return LocalKind::kZero;
    case Step::Kind::kWiden: return LocalKind::kWiden;
    case Step::Kind::kNarrow: return LocalKind::kNarrow;
    case Step::Kind::kDivideToF32: return LocalKind::kDivideToF32;
    case Step::Kind::kScale: return LocalKind::kDivide;
    case Step::Kind::kReduceRows: return LocalKind::kReduceRows;
    case Step::Kind::kMarkExtremum: return LocalKind::kMarkExtremum;
    case Step::Kind::kStoreIndex: return LocalKind::kFill;
    case Step::Kind::kPgather: return LocalKind::kGatherRows;
    case Step::Kind::kPgatherSum: return LocalKind::kAddRows;
    default: Fatal("a call of a communicator is no local step");
  }
}

}  // namespace

const void* CallMemory::Read(const BufferRef& ref) const {
  if (ref.space == BufferRef::Space::kInput) {
    const void* const at = inputs[static_cast<size_t>(ref.tensor)];
    return at == nullptr ? nullptr : Bytes(at) + ref.offset;
  }
  return Write(ref);
}

void* CallMemory::Write(const BufferRef& ref) const {
  switch (ref.space) {
    case BufferRef::Space::kOutput: {
      void* const at = outputs[static_cast<size_t>(ref.tensor)];
      return at == nullptr ? nullptr : Bytes(at) + ref.offset;
    }
    case BufferRef::Space::kScratch: return scratch + ref.offset;
    case BufferRef::Space::kNone: return nullptr;
    case BufferRef::Space::kInput: break;
  }
  Fatal("a step of a collective writes to its input");
}

bool IsLocal(const Step& step) { return step.kind < Step::Kind::kAllReduce; }

bool HasIndices(const Step& step) {
  return step.kind == Step::Kind::kPgather ||
         step.kind == Step::Kind::kPgatherSum;
}

kernels::LocalStep LocalStepOf(const Step& step, const CallMemory& memory,
                               kernels::IndexFault* fault) {
  return {.kind = LocalKindOf(step.kind),
          .in = memory.Read(step.in),
          .other = memory.Read(step.other),
          .out = memory.Write(step.out),
          .count = step.count,
          .dtype = step.dtype,
          .op = step.op,
          .copy = step.copy,
          .number = step.index,
          .row = step.block,
          .fault = fault};
}

absl::Status StatusOf(const kernels::IndexFault& fault, int size) {
  if (fault.found == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pgather: the index ", fault.index, " is outside of the ",
                   size, " members"));
}

absl::Status RunLocalStep(const Step& step, const CallMemory& memory) {
  kernels::IndexFault fault;
  kernels::RunLocalStep(LocalStepOf(step, memory, &fault));
  return StatusOf(fault, step.index);
}

}  // namespace lockstep::collectives

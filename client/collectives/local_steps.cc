#include "client/collectives/local_steps.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/arg_extremum.h"
#include "kernels/dispatch.h"
#include "kernels/f8.h"
#include "kernels/permute_blocks.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/widen.h"

namespace lockstep::collectives {
namespace {

const std::byte* Bytes(const void* at) {
  return static_cast<const std::byte*>(at);
}
std::byte* Bytes(void* at) { return static_cast<std::byte*>(at); }

void CopyBlocks(const BlockCopy& c, const void* in, void* out) {
  const bool one = c.rows == 1 && c.columns == 1;
  if (one) {
    if (in != out) std::memcpy(out, in, c.bytes);
    return;
  }
  const bool in_dense =
      c.in_column == c.bytes && c.in_row == c.columns * c.bytes;
  const bool out_dense =
      c.out_row == c.bytes && c.out_column == c.rows * c.bytes;
  if (in_dense && out_dense) {
    return kernels::PermuteBlocks(in, out, c.rows, c.columns, c.bytes);
  }
  const bool in_by_row = c.in_row == c.bytes && c.in_column == c.rows * c.bytes;
  const bool out_by_column =
      c.out_column == c.bytes && c.out_row == c.columns * c.bytes;
  if (in_by_row && out_by_column) {
    return kernels::PermuteBlocks(in, out, c.columns, c.rows, c.bytes);
  }
  for (size_t column = 0; column < c.columns; ++column) {
    for (size_t row = 0; row < c.rows; ++row) {
      std::memcpy(Bytes(out) + row * c.out_row + column * c.out_column,
                  Bytes(in) + row * c.in_row + column * c.in_column, c.bytes);
    }
  }
}

// Sums and the like of rows that lie one after the other.
void ReduceRows(std::vector<const void*> rows, void* out, size_t count,
                DType dtype, ReduceOp op) {
  if (IsTransportDType(dtype)) {
    kernels::ReduceRanks(rows, out, count, dtype, op);
  } else {
    kernels::ReduceAny(rows, out, count, dtype, op);
  }
}

// Calls f(std::type_identity<T>{}) for the floats, 8-bit ones included.
template <class F>
void WithAnyFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF8E4M3: return f(std::type_identity<kernels::F8E4M3>{});
    case DType::kF8E5M2: return f(std::type_identity<kernels::F8E5M2>{});
    default: return kernels::WithFloat(dtype, f);
  }
}

// Quotients of halves and 8-bit floats are computed in f32 and rounded once.
void DivideFloats(const void* in, void* out, size_t count, DType dtype,
                  int divisor) {
  WithAnyFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = static_cast<const T*>(in);
    T* const to = static_cast<T*>(out);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        to[i] = from[i] / static_cast<T>(divisor);
      } else if constexpr (kernels::kIsHalf<T>) {
        to[i] = kernels::ConvertTo<T>(kernels::ToF32(from[i]) /
                                      static_cast<float>(divisor));
      } else {
        to[i] = kernels::ToF8<T>(kernels::ToF32(from[i]) /
                                 static_cast<float>(divisor));
      }
    }
  });
}

void Scale(const Step& step, const void* in, void* out) {
  switch (step.dtype) {
    case DType::kC64:
      return DivideFloats(in, out, step.count * 2, DType::kF32, step.index);
    case DType::kC128:
      return DivideFloats(in, out, step.count * 2, DType::kF64, step.index);
    default: return DivideFloats(in, out, step.count, step.dtype, step.index);
  }
}

absl::Status NoMember(int32_t index, int size) {
  return absl::InvalidArgumentError(absl::StrCat(
      "pgather: the index ", index, " is outside of the ", size, " members"));
}

absl::Status Pgather(const Step& step, const void* in, const int32_t* indices,
                     void* out) {
  for (size_t r = 0; r < step.count; ++r) {
    if (indices[r] < 0 || indices[r] >= step.index) {
      return NoMember(indices[r], step.index);
    }
    if (step.block == 0) continue;
    std::memcpy(Bytes(out) + r * step.block,
                Bytes(in) + static_cast<size_t>(indices[r]) * step.block,
                step.block);
  }
  return absl::OkStatus();
}

absl::Status PgatherSum(const Step& step, const void* in,
                        const int32_t* indices, void* out) {
  const size_t bytes = step.block * SizeOf(step.dtype);
  for (size_t r = 0; r < step.count; ++r) {
    if (indices[r] < 0 || indices[r] >= step.index) {
      return NoMember(indices[r], step.index);
    }
    std::byte* const sum = Bytes(out) + static_cast<size_t>(indices[r]) * bytes;
    ReduceRows({sum, Bytes(in) + r * bytes}, sum, step.block, step.dtype,
               ReduceOp::kSum);
  }
  return absl::OkStatus();
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

absl::Status RunLocalStep(const Step& step, const CallMemory& memory) {
  const void* const in = memory.Read(step.in);
  const void* const other = memory.Read(step.other);
  void* const out = memory.Write(step.out);
  switch (step.kind) {
    case Step::Kind::kCopyBlocks: CopyBlocks(step.copy, in, out); break;
    case Step::Kind::kZero:
      if (step.count > 0) std::memset(out, 0, step.count);
      break;
    case Step::Kind::kWiden:
      kernels::WidenToI32(in, static_cast<int32_t*>(out), step.count,
                          step.dtype);
      break;
    case Step::Kind::kNarrow:
      kernels::NarrowFromI32(static_cast<const int32_t*>(in), out, step.count,
                             step.dtype);
      break;
    case Step::Kind::kDivideToF32: {
      auto* const to = static_cast<float*>(out);
      kernels::ConvertToF32(in, to, step.count, step.dtype);
      DivideFloats(to, to, step.count, DType::kF32, step.index);
      break;
    }
    case Step::Kind::kScale: Scale(step, in, out); break;
    case Step::Kind::kReduceRows: {
      std::vector<const void*> rows;
      for (int row = 0; row < step.index; ++row) {
        rows.push_back(Bytes(in) + static_cast<size_t>(row) * step.count *
                                       SizeOf(step.dtype));
      }
      ReduceRows(rows, out, step.count, step.dtype, step.op);
      break;
    }
    case Step::Kind::kMarkExtremum:
      kernels::MarkExtremum(in, other, static_cast<int32_t*>(out), step.count,
                            step.dtype, step.index);
      break;
    case Step::Kind::kStoreIndex: {
      const int32_t value = step.index;
      std::memcpy(out, &value, sizeof value);
      break;
    }
    case Step::Kind::kPgather:
      return Pgather(step, in, static_cast<const int32_t*>(other), out);
    case Step::Kind::kPgatherSum:
      return PgatherSum(step, in, static_cast<const int32_t*>(other), out);
    default: Fatal("a call of a communicator is no local step");
  }
  return absl::OkStatus();
}

}  // namespace lockstep::collectives

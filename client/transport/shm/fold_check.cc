#include "client/transport/shm/fold_check.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "client/transport/fold_rows.h"
#include "kernels/finite_check.h"

namespace lockstep::transport {
namespace {

template <class Pointer>
std::vector<Pointer> From(std::span<Pointer const> rows, size_t bytes) {
  std::vector<Pointer> from;
  for (Pointer row : rows) {
    using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte,
                                    const std::byte>;
    from.push_back(static_cast<Byte*>(row) + bytes);
  }
  return from;
}

}  // namespace

void FoldCheck::Begin(const Range& slice, size_t piece) {
  if (call_.check == nullptr || slice.begin >= call_.checked) return;
  checked_ = {slice.begin, std::min(slice.count, call_.checked - slice.begin)};
  if (piece > 0 && piece % kernels::kSumRun == 0) {
    reduce_ = std::make_unique<kernels::CheckedReduce>(call_.dtype, call_.op);
  }
}

void FoldCheck::Fold(const Range& range, std::span<const void* const> inputs,
                     std::span<void* const> outs) {
  size_t done = 0;
  if (reduce_ != nullptr) {
    const size_t end = checked_.begin + checked_.count;
    done = std::min(range.count, end - std::min(end, range.begin));
    reduce_->Fold(inputs, outs, done);
  }
  const size_t left = range.count - done;
  const size_t bytes = done * SizeOf(call_.dtype);
  if (left > 0 && done > 0) {
    FoldRows(From(inputs, bytes), From(outs, bytes), left, call_);
  } else if (left > 0) {
    FoldRows(inputs, outs, left, call_);
  }
}

void FoldCheck::End(const std::byte* result) {
  if (checked_.count == 0) return;
  const kernels::FiniteCheck check =
      reduce_ != nullptr
          ? reduce_->Total()
          : kernels::CheckFinite(result, call_.dtype, checked_.count);
  call_.check->sum_of_squares += check.sum_of_squares;
  call_.check->non_finite += check.non_finite;
}

}  // namespace lockstep::transport

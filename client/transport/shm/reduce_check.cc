#include "client/transport/shm/reduce_check.h"

#include <algorithm>
#include <type_traits>

#include "client/transport/common/reduce_rows.h"

namespace lockstep::transport {
namespace {

template <class Pointer>
void Advance(std::vector<Pointer>& rows, size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte,
                                  const std::byte>;
  for (Pointer& row : rows) row = static_cast<Byte*>(row) + bytes;
}

kernels::CheckedReduce ReduceOf(const CollectiveOp& call) {
  return call.in_pairs
             ? kernels::CheckedReduce::InPairs(call.dtype, call.factor)
             : kernels::CheckedReduce(call.dtype, call.op);
}

}  // namespace

struct ReduceCheck::Rows {
  std::vector<const void*> inputs;
  std::vector<void*> outs;
};

void ReduceCheck::Begin(const SliceRange& slice, size_t piece) {
  slice_begin_ = slice.begin;
  while_reducing_ =
      !call_.checks.empty() && piece > 0 && piece % kernels::kSumRun == 0 &&
      std::all_of(call_.checks.begin(), call_.checks.end(),
                  [&](const CheckedPart& part) {
                    const size_t from = part.range.begin - slice.begin;
                    return from % kernels::kSumRun == 0;
                  });
}

void ReduceCheck::Reduce(const SliceRange& range,
                         std::span<const void* const> inputs,
                         std::span<void* const> outs) {
  if (!while_reducing_) return ReduceRows(inputs, outs, range.count, call_);
  Rows rows{{inputs.begin(), inputs.end()}, {outs.begin(), outs.end()}};
  const size_t end = range.begin + range.count;
  for (size_t at = range.begin; at < end;) {
    const size_t done = FoldNext(at, end, rows);
    Advance(rows.inputs, done * SizeOf(call_.dtype));
    Advance(rows.outs, done * SizeOf(call_.dtype));
    at += done;
  }
}

size_t ReduceCheck::FoldNext(size_t begin, size_t end, const Rows& rows) {
  if (found_.size() < call_.checks.size()) {
    const SliceRange& part = call_.checks[found_.size()].range;
    if (begin >= part.begin) return FoldInPart(part, begin, end, rows);
    end = std::min(end, part.begin);
  }
  ReduceRows(rows.inputs, rows.outs, end - begin, call_);
  return end - begin;
}

size_t ReduceCheck::FoldInPart(const SliceRange& part, size_t begin, size_t end,
                               const Rows& rows) {
  const size_t part_end = part.begin + part.count;
  const size_t count = std::min(end, part_end) - begin;
  if (reduce_ == nullptr) {
    reduce_ = std::make_unique<kernels::CheckedReduce>(ReduceOf(call_));
  }
  reduce_->Reduce(rows.inputs, rows.outs, count);
  if (begin + count == part_end) {
    found_.push_back(reduce_->Total());
    reduce_ = nullptr;
  }
  return count;
}

void ReduceCheck::End(const std::byte* result) {
  const size_t element = SizeOf(call_.dtype);
  for (size_t p = found_.size(); p < call_.checks.size(); ++p) {
    const SliceRange& part = call_.checks[p].range;
    found_.push_back(
        kernels::CheckFinite(result + (part.begin - slice_begin_) * element,
                             call_.dtype, part.count));
  }
  for (size_t p = 0; p < found_.size(); ++p) {
    call_.checks[p].total->sum_of_squares += found_[p].sum_of_squares;
    call_.checks[p].total->non_finite += found_[p].non_finite;
  }
}

}  // namespace lockstep::transport

// What the lowering of every operation uses: the call's types, and the list of
// steps under construction.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_STEP_LIST_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_STEP_LIST_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/collectives/lowered.h"
#include "client/collectives/shapes.h"
#include "kernels/block_copy.h"
#include "lockstep/axis_collective.h"

namespace lockstep::collectives {

// A call of the member with `index` of `size`. OutputTypes has accepted it.
struct CallTypes {
  const AxisCollective& op;
  int size = 1;
  int index = 0;
  absl::Span<const TensorType> inputs;
  std::vector<TensorType> outputs;
};

// A tensor as rows x columns blocks, and where the blocks of a column are: a
// column belongs to a member.
struct AxisBlocks {
  size_t rows = 1;     // before the axis
  size_t columns = 1;  // members
  size_t bytes = 0;    // of a block
  size_t column_bytes() const { return rows * bytes; }
  // Each column's blocks follow each other already.
  bool is_contiguous() const { return rows == 1 || columns == 1; }
};

// The tensor cut along `axis`, whose extent is a multiple of `size`.
inline AxisBlocks SplitAt(const TensorType& type, size_t axis, int size) {
  const size_t rows = Product(type.shape, 0, axis);
  const size_t all = ElementsOf(type) * SizeOf(type.dtype);
  const size_t columns = static_cast<size_t>(size);
  return {rows, columns, rows == 0 ? 0 : all / rows / columns};
}

class StepList {
 protected:
  using Kind = AxisCollectiveKind;
  using StepKind = Step::Kind;

  explicit StepList(CallTypes call)
      : op_(call.op),
        size_(call.size),
        index_(call.index),
        inputs_(call.inputs),
        outputs_(std::move(call.outputs)) {}

  static BufferRef Input(size_t t) {
    return {BufferRef::Space::kInput, static_cast<int>(t), 0};
  }
  static BufferRef Output(size_t t) {
    return {BufferRef::Space::kOutput, static_cast<int>(t), 0};
  }

  Step& Add(StepKind kind, BufferRef in, BufferRef out, size_t count,
            DType dtype) {
    Step& step = lowered_.steps.emplace_back();
    step.kind = kind;
    step.in = in;
    step.out = out;
    step.count = count;
    step.dtype = dtype;
    return step;
  }

  void Copy(BufferRef in, BufferRef out, size_t bytes) {
    if (bytes == 0) return;
    CopyBlocks(in, out, {.bytes = bytes});
  }

  void CopyBlocks(BufferRef in, BufferRef out, const kernels::BlockCopy& copy) {
    if (copy.is_empty()) return;
    Add(StepKind::kCopyBlocks, in, out, 0, DType::kU8).copy = copy;
  }

  // Copies the columns of input t: each contiguous, `stride` bytes apart.
  void CopyColumns(size_t t, const AxisBlocks& b, BufferRef out,
                   size_t stride) {
    CopyBlocks(Input(t), out,
               {.rows = b.rows,
                .columns = b.columns,
                .bytes = b.bytes,
                .in_row = b.columns * b.bytes,
                .in_column = b.bytes,
                .out_row = b.bytes,
                .out_column = stride});
  }

  void Store(BufferRef out, int value) {
    Add(StepKind::kStoreIndex, {}, out, 1, DType::kI32).index = value;
  }

  BufferRef Scratch(size_t bytes) {
    constexpr size_t kAlignment = 64;
    const size_t at = lowered_.scratch_bytes;
    lowered_.scratch_bytes +=
        (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return {BufferRef::Space::kScratch, 0, at};
  }

  bool IsRoot() const { return index_ == op_.root; }
  size_t n() const { return static_cast<size_t>(size_); }

  const AxisCollective& op_;
  const int size_;
  const int index_;
  const absl::Span<const TensorType> inputs_;
  const std::vector<TensorType> outputs_;
  Lowered lowered_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_STEP_LIST_H_

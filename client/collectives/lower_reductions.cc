// Reductions as steps: by dtype, one call of the communicator for all tensors
// of a list that are sent with the same dtype.

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/collectives/lowering.h"
#include "client/collectives/step_list.h"

namespace lockstep::collectives {
namespace {

// Via the communicator's reduction of `dtype`, `words` of them for each
// element; or, `gather`, all values are gathered and reduced here.
struct ReductionPath {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  size_t words = 1;
  bool widen = false;  // to i32
  bool gather = false;
  bool divide = false;  // by the number of members, to f32
  auto key() const { return std::tuple(dtype, op, gather); }
};

bool IsNarrowInteger(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16: return true;
    default: return false;
  }
}

ReductionPath PathOf(ReduceOp op, DType dtype) {
  ReductionPath path{.dtype = dtype, .op = op};
  if (op == ReduceOp::kMean && (IsNarrowInteger(dtype) ||
                                (IsTransportDType(dtype) && !IsFloat(dtype)))) {
    path.op = ReduceOp::kSum;
    path.divide = true;
    if (IsNarrowInteger(dtype)) {
      path.dtype = DType::kI32;
      path.widen = true;
    }
    return path;
  }
  switch (dtype) {
    case DType::kBool:
      path.widen = op == ReduceOp::kSum || op == ReduceOp::kProd;
      path.dtype = path.widen ? DType::kI32 : DType::kU8;
      return path;
    case DType::kI16:
    case DType::kU16:
      path.dtype = DType::kI32;
      path.widen = true;
      return path;
    case DType::kC64:
    case DType::kC128:
      if (op == ReduceOp::kSum || op == ReduceOp::kMean) {
        path.dtype = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
        path.words = 2;
      } else {
        path.gather = true;
      }
      return path;
    case DType::kF8E4M3:
    case DType::kF8E5M2: path.gather = true; return path;
    default: return path;
  }
}

class ReductionSteps final : public StepList {
 public:
  explicit ReductionSteps(CallTypes call) : StepList(std::move(call)) {}

  Lowered Run() {
    switch (op_.kind) {
      case Kind::kPargmax:
      case Kind::kPargmin: ArgReduce(*ReductionOf(op_)); break;
      case Kind::kPsumScatter: PsumScatter(); break;
      case Kind::kPgatherTranspose: PgatherTranspose(); break;
      default: Reduce(ReductionOf(op_).value()); break;
    }
    return std::move(lowered_);
  }

 private:
  using Refs = std::vector<BufferRef>;

  // The tensors that are reduced in one call.
  using Batch = std::vector<size_t>;

  static std::vector<std::pair<ReductionPath, Batch>> Batches(
      const std::vector<ReductionPath>& paths) {
    std::vector<std::pair<ReductionPath, Batch>> batches;
    for (size_t t = 0; t < paths.size(); ++t) {
      const auto found = std::find_if(
          batches.begin(), batches.end(),
          [&](const auto& b) { return b.first.key() == paths[t].key(); });
      if (found != batches.end()) {
        found->second.push_back(t);
      } else {
        batches.push_back({paths[t], {t}});
      }
    }
    return batches;
  }

  void Reduce(ReduceOp op) {
    const bool has_output = !outputs_.empty();
    const bool zeros = op_.zeros_elsewhere && !IsRoot();
    Refs results;
    for (size_t t = 0; t < inputs_.size(); ++t) {
      // A member without the result takes part in the reduction.
      results.push_back(
          has_output && !zeros
              ? Output(t)
              : Scratch(ElementsOf(inputs_[t]) * SizeOf(ResultType(op, t))));
    }
    ReduceTo(op, results);
    if (!zeros) return;
    for (size_t t = 0; t < outputs_.size(); ++t) {
      Add(StepKind::kZero, {}, Output(t), BytesOf(outputs_[t]), DType::kU8);
    }
  }

  DType ResultType(ReduceOp op, size_t t) const {
    const ReductionPath path = PathOf(op, inputs_[t].dtype);
    if (path.divide) return DType::kF32;
    const bool counted = path.widen && inputs_[t].dtype == DType::kBool;
    return counted ? DType::kI32 : inputs_[t].dtype;
  }

  // Reduces all inputs to `results`.
  void ReduceTo(ReduceOp op, const Refs& results) {
    std::vector<ReductionPath> paths;
    for (const TensorType& in : inputs_) paths.push_back(PathOf(op, in.dtype));
    for (const auto& [path, batch] : Batches(paths)) {
      if (path.gather) {
        for (const size_t t : batch) GatherAndReduce(path, t, results[t]);
      } else {
        ReduceBatch(paths, path, batch, results);
      }
    }
  }

  void ReduceBatch(const std::vector<ReductionPath>& paths,
                   const ReductionPath& path, const Batch& batch,
                   const Refs& results) {
    const bool plain =
        batch.size() == 1 && !paths[batch[0]].widen && !paths[batch[0]].divide;
    if (plain) {
      const size_t t = batch[0];
      AllReduce(Input(t), results[t], ElementsOf(inputs_[t]) * path.words,
                path);
      return;
    }
    size_t words = 0;
    for (const size_t t : batch) {
      words += ElementsOf(inputs_[t]) * paths[t].words;
    }
    const size_t word = SizeOf(path.dtype);
    const BufferRef wire = Scratch(words * word);
    BufferRef at = wire;
    for (const size_t t : batch) {
      Widened(paths[t], Input(t), at, ElementsOf(inputs_[t]), inputs_[t].dtype);
      at = at.At(ElementsOf(inputs_[t]) * paths[t].words * word);
    }
    AllReduce(wire, wire, words, path);
    at = wire;
    for (const size_t t : batch) {
      Narrowed(paths[t], at, results[t], ElementsOf(inputs_[t]),
               inputs_[t].dtype);
      at = at.At(ElementsOf(inputs_[t]) * paths[t].words * word);
    }
  }

  void AllReduce(BufferRef in, BufferRef out, size_t words,
                 const ReductionPath& path) {
    Add(StepKind::kAllReduce, in, out, words, path.dtype).op = path.op;
  }

  // To and from what the communicator reduces.
  void Widened(const ReductionPath& path, BufferRef in, BufferRef out,
               size_t count, DType dtype) {
    if (path.widen) {
      Add(StepKind::kWiden, in, out, count, dtype);
    } else {
      Copy(in, out, count * SizeOf(dtype));
    }
  }
  void Narrowed(const ReductionPath& path, BufferRef in, BufferRef out,
                size_t count, DType dtype) {
    if (path.divide) {
      Add(StepKind::kDivideToF32, in, out, count, path.dtype).index = size_;
    } else if (path.widen && dtype != DType::kBool) {
      Add(StepKind::kNarrow, in, out, count, dtype);
    } else {
      Copy(in, out, count * path.words * SizeOf(path.dtype));
    }
  }

  void GatherAndReduce(const ReductionPath& path, size_t t, BufferRef out) {
    const size_t bytes = BytesOf(inputs_[t]);
    const BufferRef all = Scratch(n() * bytes);
    Add(StepKind::kAllGather, Input(t), all, bytes, DType::kU8);
    ReduceRows(path.op, all, out, ElementsOf(inputs_[t]), inputs_[t].dtype);
  }

  void ReduceRows(ReduceOp op, BufferRef in, BufferRef out, size_t count,
                  DType dtype) {
    Step& step = Add(StepKind::kReduceRows, in, out, count, dtype);
    step.op = op;
    step.index = size_;
  }

  // The extremum of all members, then the first index that has it.
  void ArgReduce(ReduceOp op) {
    Refs extrema;
    size_t indices = 0;
    for (const TensorType& in : inputs_) {
      extrema.push_back(Scratch(BytesOf(in)));
      indices += ElementsOf(in);
    }
    ReduceTo(op, extrema);
    const BufferRef marks = Scratch(indices * sizeof(int32_t));
    BufferRef at = marks;
    for (size_t t = 0; t < inputs_.size(); ++t) {
      const size_t count = ElementsOf(inputs_[t]);
      Step& step =
          Add(StepKind::kMarkExtremum, Input(t), at, count, inputs_[t].dtype);
      step.other = extrema[t];
      step.index = index_;
      at = at.At(count * sizeof(int32_t));
    }
    AllReduce(marks, marks, indices,
              {.dtype = DType::kI32, .op = ReduceOp::kMin});
    at = marks;
    for (size_t t = 0; t < inputs_.size(); ++t) {
      Copy(at, Output(t), BytesOf(outputs_[t]));
      at = at.At(BytesOf(outputs_[t]));
    }
  }

  void PsumScatter() {
    std::vector<ReductionPath> paths;
    for (const TensorType& in : inputs_) {
      paths.push_back(PathOf(ReduceOp::kSum, in.dtype));
    }
    for (const auto& [path, batch] : Batches(paths)) {
      if (batch.size() == 1) {
        SumAndScatter(batch[0]);
      } else {
        SumAndScatterBatch(paths, path, batch);
      }
    }
  }

  AxisBlocks BlocksOf(size_t t) const {
    return SplitAt(inputs_[t], *NormalAxis(op_.axis, inputs_[t].shape.size()),
                   size_);
  }

  // Each member's part of all tensors in a row:
  //
  //   wire   member 0: [part of t0 | part of t1]   member 1: [...]
  //   sums             [sum of t0  | sum of t1 ]
  void SumAndScatterBatch(const std::vector<ReductionPath>& paths,
                          const ReductionPath& path, const Batch& batch) {
    const size_t word = SizeOf(path.dtype);
    size_t words = 0;
    for (const size_t t : batch) {
      words += ElementsOf(outputs_[t]) * paths[t].words;
    }
    const size_t stride = words * word;
    const BufferRef wire = Scratch(n() * stride), sums = Scratch(stride);
    BufferRef at = wire;
    for (const size_t t : batch) {
      WriteParts(paths[t], t, at, stride);
      at = at.At(ElementsOf(outputs_[t]) * paths[t].words * word);
    }
    if (path.gather) {
      const BufferRef rows = Scratch(n() * stride);
      Add(StepKind::kAllToAll, wire, rows, stride, DType::kU8);
      ReduceRows(path.op, rows, sums, words, path.dtype);
    } else {
      Add(StepKind::kReduceScatter, wire, sums, words, path.dtype).op = path.op;
    }
    at = sums;
    for (const size_t t : batch) {
      const size_t count = ElementsOf(outputs_[t]);
      Narrowed(paths[t], at, Output(t), count, inputs_[t].dtype);
      at = at.At(count * paths[t].words * word);
    }
  }

  // The members' parts of input t, as they are sent, `stride` bytes apart.
  void WriteParts(const ReductionPath& path, size_t t, BufferRef out,
                  size_t stride) {
    const AxisBlocks b = BlocksOf(t);
    if (!path.widen) return CopyColumns(t, b, out, stride);
    BufferRef packed = Input(t);
    if (!b.is_contiguous()) {
      packed = Scratch(BytesOf(inputs_[t]));
      CopyColumns(t, b, packed, b.column_bytes());
    }
    const size_t count = ElementsOf(outputs_[t]);
    const size_t bytes = count * sizeof(int32_t);
    const BufferRef wide = Scratch(n() * bytes);
    Widened(path, packed, wide, n() * count, inputs_[t].dtype);
    CopyBlocks(wide, out,
               {.columns = n(),
                .bytes = bytes,
                .in_column = bytes,
                .out_column = stride});
  }

  void SumAndScatter(size_t t) {
    const ReductionPath path = PathOf(ReduceOp::kSum, inputs_[t].dtype);
    const DType dtype = inputs_[t].dtype;
    const AxisBlocks b = BlocksOf(t);
    const size_t count = ElementsOf(outputs_[t]);
    BufferRef packed = Input(t);
    if (!b.is_contiguous()) {
      packed = Scratch(BytesOf(inputs_[t]));
      CopyColumns(t, b, packed, b.column_bytes());
    }
    if (path.gather) {
      const BufferRef rows = Scratch(n() * b.column_bytes());
      Add(StepKind::kAllToAll, packed, rows, b.column_bytes(), DType::kU8);
      ReduceRows(path.op, rows, Output(t), count, dtype);
      return;
    }
    BufferRef in = packed, out = Output(t);
    if (path.widen) {
      in = Scratch(count * n() * sizeof(int32_t));
      out = Scratch(count * sizeof(int32_t));
      Widened(path, packed, in, count * n(), dtype);
    }
    Add(StepKind::kReduceScatter, in, out, count * path.words, path.dtype).op =
        path.op;
    if (path.widen) Narrowed(path, out, Output(t), count, dtype);
  }

  // Each member's sum of the cotangents of its rows.
  void PgatherTranspose() {
    const TensorType& out = outputs_[0];
    const size_t count = ElementsOf(out);
    const BufferRef rows = Scratch(n() * BytesOf(out));
    Add(StepKind::kZero, {}, rows, n() * BytesOf(out), DType::kU8);
    Step& step = Add(StepKind::kPgatherSum, Input(0), rows,
                     ElementsOf(inputs_[1]), out.dtype);
    step.other = Input(1);
    step.index = size_;
    step.block = count;
    const ReductionPath path = PathOf(ReduceOp::kSum, out.dtype);
    if (path.gather || path.widen) {
      const BufferRef all = Scratch(n() * BytesOf(out));
      Add(StepKind::kAllToAll, rows, all, BytesOf(out), DType::kU8);
      ReduceRows(ReduceOp::kSum, all, Output(0), count, out.dtype);
    } else {
      Add(StepKind::kReduceScatter, rows, Output(0), count * path.words,
          path.dtype)
          .op = ReduceOp::kSum;
    }
  }
};

}  // namespace

Lowered LowerReduction(CallTypes call) {
  return ReductionSteps(std::move(call)).Run();
}

}  // namespace lockstep::collectives

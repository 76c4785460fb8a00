#include "client/collectives/lowering.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "client/collectives/shapes.h"

namespace lockstep::collectives {
namespace {

using Kind = AxisCollectiveKind;
using StepKind = Step::Kind;

BufferRef Input(size_t t) {
  return {BufferRef::Space::kInput, static_cast<int>(t), 0};
}
BufferRef Output(size_t t) {
  return {BufferRef::Space::kOutput, static_cast<int>(t), 0};
}

// --- How a reduction of a dtype is sent --------------------------------------

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

// --- Layouts ----------------------------------------------------------------

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

// `shape` has the axis at `axis`, with a multiple of `size` elements (tiled) or
// `size`.
AxisBlocks SplitAt(const TensorType& type, size_t axis, int size) {
  const size_t rows = Product(type.shape, 0, axis);
  const size_t all = ElementsOf(type) * SizeOf(type.dtype);
  const size_t columns = static_cast<size_t>(size);
  return {rows, columns, rows == 0 ? 0 : all / rows / columns};
}

class StepListBuilder {
 public:
  StepListBuilder(const AxisCollective& op, int size, int index,
                  absl::Span<const TensorType> inputs,
                  std::vector<TensorType> outputs)
      : op_(op),
        size_(size),
        index_(index),
        inputs_(inputs),
        outputs_(std::move(outputs)) {}

  Lowered Run() {
    if (KeepsShapeWithoutAxes(op_, size_)) {
      Vary();
      return std::move(lowered_);
    }
    switch (op_.kind) {
      case Kind::kPsum: Reduce(ReduceOp::kSum); break;
      case Kind::kPmean: Reduce(ReduceOp::kMean); break;
      case Kind::kPprod: Reduce(ReduceOp::kProd); break;
      case Kind::kPmax: Reduce(ReduceOp::kMax); break;
      case Kind::kPmin: Reduce(ReduceOp::kMin); break;
      case Kind::kReduce: Reduce(op_.reduce); break;
      case Kind::kPargmax: ArgReduce(ReduceOp::kMax); break;
      case Kind::kPargmin: ArgReduce(ReduceOp::kMin); break;
      case Kind::kPbroadcast: Broadcast(); break;
      case Kind::kPpermute: Permute(op_.pairs, true, true); break;
      case Kind::kPsend: Permute(op_.pairs, true, false); break;
      case Kind::kPrecv: Permute(op_.pairs, false, true); break;
      case Kind::kPshuffle: Permute(PairsOf(op_.sources), true, true); break;
      case Kind::kAllGather:
      case Kind::kAllGatherInvariant: AllGather(); break;
      case Kind::kGather: Gather(); break;
      case Kind::kScatter: Scatter(); break;
      case Kind::kPsumScatter: PsumScatter(); break;
      case Kind::kAllToAll: AllToAll(op_.concat_axis); break;
      case Kind::kPswapaxes: AllToAll(op_.axis); break;
      case Kind::kPgather: Pgather(); break;
      case Kind::kPgatherTranspose: PgatherTranspose(); break;
      case Kind::kAxisIndex: Store(Output(0), index_); break;
      case Kind::kAxisSize: Store(Output(0), size_); break;
      case Kind::kPvary: Vary(); break;
      case Kind::kOwnSlice: OwnSlice(); break;
      case Kind::kRaggedAllToAll:
      case Kind::kRaggedAllToAllTranspose: break;  // ragged.h
    }
    return std::move(lowered_);
  }

 private:
  using Refs = std::vector<BufferRef>;

  // --- Steps -----------------------------------------------------------------

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

  void CopyBlocks(BufferRef in, BufferRef out, const BlockCopy& copy) {
    if (copy.rows * copy.columns * copy.bytes == 0) return;
    Add(StepKind::kCopyBlocks, in, out, 0, DType::kU8).copy = copy;
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

  // --- Reductions
  // --------------------------------------------------------------

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

  // --- Moves
  // -------------------------------------------------------------------

  // All inputs, or outputs, one after the other; with one tensor, the tensor.
  BufferRef Joined() {
    if (inputs_.size() == 1) return Input(0);
    const BufferRef joined = Scratch(InputBytes());
    Join(joined);
    return joined;
  }
  void Join(BufferRef joined) {
    for (size_t t = 0; t < inputs_.size(); ++t) {
      Copy(Input(t), joined, BytesOf(inputs_[t]));
      joined = joined.At(BytesOf(inputs_[t]));
    }
  }
  void Separate(BufferRef joined) {
    for (size_t t = 0; t < outputs_.size(); ++t) {
      Copy(joined, Output(t), BytesOf(outputs_[t]));
      joined = joined.At(BytesOf(outputs_[t]));
    }
  }
  size_t InputBytes() const {
    size_t bytes = 0;
    for (const TensorType& in : inputs_) bytes += BytesOf(in);
    return bytes;
  }

  void Broadcast() {
    const size_t bytes = InputBytes();
    const bool one = inputs_.size() == 1;
    const BufferRef buffer = one ? Output(0) : Scratch(bytes);
    if (IsRoot()) Join(buffer);
    Add(StepKind::kBroadcast, {}, buffer, bytes, DType::kU8).index = op_.root;
    if (!one) Separate(buffer);
    if (op_.reduce != ReduceOp::kMean) return;
    for (size_t t = 0; t < outputs_.size(); ++t) Divide(Output(t), t);
  }

  // Output t becomes `in` / n.
  void Divide(BufferRef in, size_t t) {
    Add(StepKind::kScale, in, Output(t), ElementsOf(outputs_[t]),
        outputs_[t].dtype)
        .index = size_;
  }

  static std::vector<std::pair<int, int>> PairsOf(
      const std::vector<int>& sources) {
    std::vector<std::pair<int, int>> pairs;
    for (size_t i = 0; i < sources.size(); ++i) {
      pairs.push_back({sources[i], static_cast<int>(i)});
    }
    return pairs;
  }

  void Permute(const std::vector<std::pair<int, int>>& pairs, bool sends,
               bool receives) {
    std::optional<int> source, target;
    for (const auto& [from, to] : pairs) {
      if (from == index_ && sends) target = to;
      if (to == index_ && receives) source = from;
    }
    const size_t bytes = InputBytes();
    if (receives && !source.has_value()) {
      for (size_t t = 0; t < outputs_.size(); ++t) {
        Add(StepKind::kZero, {}, Output(t), BytesOf(outputs_[t]), DType::kU8);
      }
    }
    if (source == index_) {
      for (size_t t = 0; t < outputs_.size(); ++t) {
        Copy(Input(t), Output(t), BytesOf(outputs_[t]));
      }
      return;
    }
    const bool one = inputs_.size() == 1;
    BufferRef received;
    std::vector<SendOrRecv> messages;
    if (target.has_value())
      messages.push_back({true, *target, Joined(), bytes});
    if (source.has_value()) {
      received = one ? Output(0) : Scratch(bytes);
      messages.push_back({false, *source, received, bytes});
    }
    AddMessages(std::move(messages));
    if (source.has_value() && !one) Separate(received);
  }

  void AddMessages(std::vector<SendOrRecv> messages) {
    if (messages.empty()) return;
    Add(StepKind::kMessages, {}, {}, 0, DType::kU8).messages =
        std::move(messages);
  }

  // Tensors whose parts belong to members, in one transfer: the parts of all
  // tensors for member 0, then those for member 1, ... With one tensor whose
  // parts are contiguous the transfer's buffer is the tensor.
  struct Parts {
    std::vector<AxisBlocks> blocks;  // of each tensor
    size_t bytes = 0;                // of a member
    bool direct = false;
  };

  Parts PartsOf(absl::Span<const TensorType> types, int axis) const {
    Parts parts;
    for (const TensorType& type : types) {
      const size_t at = *NormalAxis(axis, type.shape.size());
      parts.blocks.push_back(SplitAt(type, at, size_));
      parts.bytes += parts.blocks.back().column_bytes();
    }
    parts.direct = types.size() == 1 && parts.blocks[0].is_contiguous();
    return parts;
  }

  BufferRef Packed(const Parts& parts) {
    if (parts.direct) return Input(0);
    const BufferRef packed = Scratch(parts.bytes * n());
    BufferRef at = packed;
    for (size_t t = 0; t < parts.blocks.size(); ++t) {
      const AxisBlocks& b = parts.blocks[t];
      CopyBlocks(Input(t), at,
                 {.rows = b.rows,
                  .columns = b.columns,
                  .bytes = b.bytes,
                  .in_row = b.columns * b.bytes,
                  .in_column = b.bytes,
                  .out_row = b.bytes,
                  .out_column = parts.bytes});
      at = at.At(b.column_bytes());
    }
    return packed;
  }

  BufferRef Unpacked(const Parts& parts) {
    return parts.direct ? Output(0) : Scratch(parts.bytes * n());
  }
  void Unpack(const Parts& parts, BufferRef packed) {
    if (parts.direct) return;
    for (size_t t = 0; t < parts.blocks.size(); ++t) {
      const AxisBlocks& b = parts.blocks[t];
      CopyBlocks(packed, Output(t),
                 {.rows = b.rows,
                  .columns = b.columns,
                  .bytes = b.bytes,
                  .in_row = b.bytes,
                  .in_column = parts.bytes,
                  .out_row = b.columns * b.bytes,
                  .out_column = b.bytes});
      packed = packed.At(b.column_bytes());
    }
  }

  void AllGather() {
    const Parts parts = PartsOf(outputs_, op_.axis);
    const BufferRef in = Joined();
    const BufferRef all = Unpacked(parts);
    Add(StepKind::kAllGather, in, all, parts.bytes, DType::kU8);
    Unpack(parts, all);
  }

  void Gather() {
    const BufferRef in = Joined();
    const size_t bytes = InputBytes();
    if (!IsRoot()) {
      AddMessages({{true, op_.root, in, bytes}});
      return;
    }
    const Parts parts = PartsOf(outputs_, op_.axis);
    const BufferRef all = Unpacked(parts);
    Copy(in, all.At(bytes * index_), bytes);
    std::vector<SendOrRecv> messages;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != index_) {
        messages.push_back({false, peer, all.At(bytes * peer), bytes});
      }
    }
    AddMessages(std::move(messages));
    Unpack(parts, all);
  }

  void Scatter() {
    const Parts parts = PartsOf(inputs_, op_.axis);
    const bool one = outputs_.size() == 1;
    const BufferRef own = one ? Output(0) : Scratch(parts.bytes);
    if (IsRoot()) {
      const BufferRef packed = Packed(parts);
      std::vector<SendOrRecv> messages;
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == index_) continue;
        messages.push_back(
            {true, peer, packed.At(parts.bytes * peer), parts.bytes});
      }
      AddMessages(std::move(messages));
      Copy(packed.At(parts.bytes * index_), own, parts.bytes);
    } else {
      AddMessages({{false, op_.root, own, parts.bytes}});
    }
    if (!one) Separate(own);
  }

  void AllToAll(int concat_axis) {
    const Parts in = PartsOf(inputs_, op_.axis);
    const Parts out = PartsOf(outputs_, concat_axis);
    const BufferRef packed = Packed(in);
    const BufferRef all = Unpacked(out);
    Add(StepKind::kAllToAll, packed, all, in.bytes, DType::kU8);
    Unpack(out, all);
  }

  void PsumScatter() {
    for (size_t t = 0; t < inputs_.size(); ++t) SumAndScatter(t);
  }

  void SumAndScatter(size_t t) {
    const ReductionPath path = PathOf(ReduceOp::kSum, inputs_[t].dtype);
    const DType dtype = inputs_[t].dtype;
    const AxisBlocks b = SplitAt(
        inputs_[t], *NormalAxis(op_.axis, inputs_[t].shape.size()), size_);
    const size_t count = ElementsOf(outputs_[t]);
    BufferRef packed = Input(t);
    if (!b.is_contiguous()) {
      packed = Scratch(BytesOf(inputs_[t]));
      CopyBlocks(Input(t), packed,
                 {.rows = b.rows,
                  .columns = b.columns,
                  .bytes = b.bytes,
                  .in_row = b.columns * b.bytes,
                  .in_column = b.bytes,
                  .out_row = b.bytes,
                  .out_column = b.column_bytes()});
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

  void Pgather() {
    const size_t bytes = BytesOf(inputs_[0]);
    const BufferRef all = Scratch(bytes * n());
    Add(StepKind::kAllGather, Input(0), all, bytes, DType::kU8);
    Step& step = Add(StepKind::kPgather, all, Output(0), ElementsOf(inputs_[1]),
                     DType::kU8);
    step.other = Input(1);
    step.index = size_;
    step.block = bytes;
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

  void Vary() {
    for (size_t t = 0; t < inputs_.size(); ++t) {
      if (op_.reduce == ReduceOp::kMean) {
        Divide(Input(t), t);
      } else {
        Copy(Input(t), Output(t), BytesOf(inputs_[t]));
      }
    }
  }

  void OwnSlice() {
    for (size_t t = 0; t < inputs_.size(); ++t) {
      const AxisBlocks b = SplitAt(
          inputs_[t], *NormalAxis(op_.axis, inputs_[t].shape.size()), size_);
      CopyBlocks(Input(t).At(b.bytes * index_), Output(t),
                 {.rows = b.rows,
                  .bytes = b.bytes,
                  .in_row = b.columns * b.bytes,
                  .out_row = b.bytes});
    }
  }

  const AxisCollective& op_;
  const int size_;
  const int index_;
  const absl::Span<const TensorType> inputs_;
  const std::vector<TensorType> outputs_;
  Lowered lowered_;
};

}  // namespace

absl::StatusOr<Lowered> Lower(const AxisCollective& op, int size, int index,
                              absl::Span<const TensorType> inputs) {
  auto outputs = OutputTypes(op, size, index, inputs);
  if (!outputs.ok()) return outputs.status();
  return StepListBuilder(op, size, index, inputs, *std::move(outputs)).Run();
}

}  // namespace lockstep::collectives

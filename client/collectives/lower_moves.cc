// Moves as steps: what gathers, scatters, exchanges and permutes. All tensors
// of a list move in one transfer.

#include <optional>
#include <utility>

#include "base/check.h"
#include "client/collectives/lowering.h"
#include "client/collectives/step_list.h"

namespace lockstep::collectives {
namespace {

class MoveSteps final : public StepList {
 public:
  explicit MoveSteps(CallTypes call) : StepList(std::move(call)) {}

  Lowered Run() {
    if (KeepsShapeWithoutAxes(op_, size_)) {
      Vary();
      return std::move(lowered_);
    }
    switch (op_.kind) {
      case Kind::kPbroadcast: Broadcast(); break;
      case Kind::kPpermute: Permute(op_.pairs, true, true); break;
      case Kind::kPsend: Permute(op_.pairs, true, false); break;
      case Kind::kPrecv: Permute(op_.pairs, false, true); break;
      case Kind::kPshuffle: Permute(PairsOf(op_.sources), true, true); break;
      case Kind::kAllGather:
      case Kind::kAllGatherInvariant: AllGather(); break;
      case Kind::kGather: Gather(); break;
      case Kind::kScatter: Scatter(); break;
      case Kind::kAllToAll: AllToAll(op_.concat_axis); break;
      case Kind::kPswapaxes: AllToAll(op_.axis); break;
      case Kind::kPgather: Pgather(); break;
      case Kind::kAxisIndex: Store(Output(0), index_); break;
      case Kind::kAxisSize: Store(Output(0), size_); break;
      case Kind::kPvary: Vary(); break;
      case Kind::kOwnSlice: OwnSlice(); break;
      default: Fatal("no move");
    }
    return std::move(lowered_);
  }

 private:
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
      CopyColumns(t, b, at, parts.bytes);
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
};

}  // namespace

Lowered LowerMove(CallTypes call) { return MoveSteps(std::move(call)).Run(); }

}  // namespace lockstep::collectives

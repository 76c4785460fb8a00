#include "client/collectives/ragged.h"

#include <cstring>

#include "client/collectives/ragged_slices.h"
#include "client/collectives/shapes.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/row_copy.h"

namespace lockstep::collectives {
namespace {

using kernels::RowRange;

void AddRows(const std::vector<RowRange>& ranges, const std::byte* in,
             std::byte* out, const RaggedSlices& s) {
  for (const RowRange& r : ranges) {
    if (r.rows * s.row_bytes == 0) continue;
    std::byte* const sum = out + r.out_row * s.row_bytes;
    const void* const rows[] = {sum, in + r.in_row * s.row_bytes};
    const size_t count = r.rows * s.row_elements;
    if (IsTransportDType(s.dtype)) {
      kernels::ReduceRanks(rows, sum, count, s.dtype, ReduceOp::kSum);
    } else {
      kernels::ReduceAny(rows, sum, count, s.dtype, ReduceOp::kSum);
    }
  }
}

// One call: what the stream runs of it, and the memory that it uses.
struct RaggedCall {
  RaggedSlices slices;
  std::shared_ptr<transport::ScratchPool> pool;  // outlives its memory
  transport::Scratch packed, received, exchanged;
  const void* in = nullptr;              // operand; transpose: the cotangent
  const void* initial_output = nullptr;  // forward
  void* out = nullptr;                   // output; transpose: of the operand
  void* output_cotangent = nullptr;      // transpose
  size_t operand_bytes = 0, output_bytes = 0;

  size_t vector_bytes() const { return slices.count() * sizeof(int64_t); }
  std::byte* own_offsets() const { return exchanged.data(); }
  // Where received rows belong, once the offsets are exchanged.
  std::byte* offsets() const { return exchanged.data() + vector_bytes(); }

  void PackOperand() const {
    kernels::CopyRows(Ranges(slices.input_offsets, slices.send_sizes, true), in,
                      packed.data(), slices.row_bytes);
  }

  absl::Status UnpackOutput() const {
    const auto at = ReceivedOffsets(slices, offsets());
    if (!at.ok()) return at.status();
    if (out != initial_output && output_bytes > 0) {
      std::memcpy(out, initial_output, output_bytes);
    }
    kernels::CopyRows(Ranges(*at, slices.recv_sizes, false), received.data(),
                      out, slices.row_bytes);
    return absl::OkStatus();
  }

  absl::Status PackCotangent() const {
    const auto at = ReceivedOffsets(slices, offsets());
    if (!at.ok()) return at.status();
    kernels::CopyRows(Ranges(*at, slices.recv_sizes, true), in, packed.data(),
                      slices.row_bytes);
    if (output_cotangent != in && output_bytes > 0) {
      std::memcpy(output_cotangent, in, output_bytes);
    }
    kernels::ZeroRows(Ranges(*at, slices.recv_sizes, false), output_cotangent,
                      slices.row_bytes);
    return absl::OkStatus();
  }

  absl::Status UnpackOperand() const {
    if (operand_bytes > 0) std::memset(out, 0, operand_bytes);
    AddRows(Ranges(slices.input_offsets, slices.send_sizes, false),
            received.data(), static_cast<std::byte*>(out), slices);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status RunRagged(const AxisCollective& op,
                       absl::Span<const TensorType> types,
                       absl::Span<const void* const> inputs,
                       absl::Span<void* const> outputs,
                       const std::shared_ptr<Communicator>& communicator,
                       const std::shared_ptr<transport::ScratchPool>& pool,
                       CallStream& stream) {
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  const auto& [operand, output] = TensorsOf(op, types);
  const auto call = std::make_shared<RaggedCall>();
  call->pool = pool;
  call->in = inputs[0];
  call->initial_output = forward ? inputs[1] : nullptr;
  call->out = outputs[0];
  call->output_cotangent = forward ? nullptr : outputs[1];
  call->operand_bytes = BytesOf(operand);
  call->output_bytes = BytesOf(output);
  call->slices = SlicesOf(op, types, inputs);
  const RaggedSlices& s = call->slices;
  if (absl::Status status = CheckSlices(s); !status.ok()) return status;

  const int members = communicator->size();
  const PeerBytes sent =
      ByPeer(forward ? s.send_sizes : s.recv_sizes, members, s.row_bytes);
  const PeerBytes got =
      ByPeer(forward ? s.recv_sizes : s.send_sizes, members, s.row_bytes);
  absl::Status status = pool->Take(sent.total, &call->packed);
  status.Update(pool->Take(got.total, &call->received));
  status.Update(pool->Take(2 * call->vector_bytes(), &call->exchanged));
  if (!status.ok()) return status;

  stream.Enqueue([call, forward] {
    std::memcpy(call->own_offsets(), call->slices.output_offsets.data(),
                call->vector_bytes());
    if (forward) call->PackOperand();
    return absl::OkStatus();
  });
  status = communicator->AllToAll(call->own_offsets(), call->offsets(),
                                  s.count() / static_cast<size_t>(members),
                                  DType::kI64, stream.stream());
  // What a failed transfer left in memory means nothing.
  const auto if_received = [communicator](auto work) {
    return [communicator, work] {
      return communicator->status().ok() ? work() : absl::OkStatus();
    };
  };
  if (!forward) {
    stream.Enqueue(if_received([call] { return call->PackCotangent(); }));
  }
  if (status.ok()) {
    status = communicator->AllToAllV(
        call->packed.data(), sent.counts, sent.offsets, call->received.data(),
        got.counts, got.offsets, DType::kU8, stream.stream());
  }
  // Also after an error: keeps the memory for what is enqueued.
  stream.Enqueue(if_received([call, forward, enqueued = status.ok()] {
    if (!enqueued) return absl::OkStatus();
    return forward ? call->UnpackOutput() : call->UnpackOperand();
  }));
  return status;
}

}  // namespace lockstep::collectives

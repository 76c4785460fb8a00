#include "client/collectives/ragged.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/collectives/shapes.h"
#include "kernels/local_step.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/row_copy.h"

namespace lockstep::collectives {
namespace {

using kernels::RowRange;

std::vector<int64_t> ReadVector(const TensorType& type, const void* data) {
  std::vector<int64_t> values(ElementsOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.dtype == DType::kI32) {
      values[i] = static_cast<const int32_t*>(data)[i];
    } else {
      values[i] = static_cast<const int64_t*>(data)[i];
    }
  }
  return values;
}

// Rows of each member's slices together, for AllToAllV in bytes.
struct PeerBytes {
  std::vector<size_t> counts, offsets;
  size_t total = 0;
};

PeerBytes ByPeer(const std::vector<int64_t>& sizes, int members,
                 size_t row_bytes) {
  PeerBytes bytes;
  const size_t slices = sizes.size() / static_cast<size_t>(members);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k % slices == 0) {
      bytes.counts.push_back(0);
      bytes.offsets.push_back(bytes.total);
    }
    bytes.counts.back() += static_cast<size_t>(sizes[k]) * row_bytes;
    bytes.total += static_cast<size_t>(sizes[k]) * row_bytes;
  }
  return bytes;
}

// What is the same in both directions. Copied into the stream's work.
struct RaggedSlices {
  int64_t operand_rows = 0, output_rows = 0;
  size_t row_bytes = 0, row_elements = 0;
  DType dtype = DType::kU8;
  std::vector<int64_t> input_offsets, send_sizes, output_offsets, recv_sizes;
  size_t count() const { return send_sizes.size(); }
};

absl::Status OutOfBounds(const char* what, size_t k, int64_t offset,
                         int64_t size, int64_t rows) {
  return absl::InvalidArgumentError(
      absl::StrCat("ragged_all_to_all: slice ", k, " has ", size, " rows at ",
                   offset, " of ", what, ", which has ", rows));
}

bool IsWithin(int64_t offset, int64_t size, int64_t rows) {
  return size >= 0 && offset >= 0 && offset <= rows && size <= rows - offset;
}

absl::Status Check(const RaggedSlices& s) {
  for (size_t k = 0; k < s.count(); ++k) {
    if (!IsWithin(s.input_offsets[k], s.send_sizes[k], s.operand_rows)) {
      return OutOfBounds("the operand", k, s.input_offsets[k], s.send_sizes[k],
                         s.operand_rows);
    }
    if (!IsWithin(s.output_offsets[k], s.send_sizes[k], s.output_rows)) {
      return OutOfBounds("the output", k, s.output_offsets[k], s.send_sizes[k],
                         s.output_rows);
    }
    if (s.recv_sizes[k] < 0 || s.recv_sizes[k] > s.output_rows) {
      return OutOfBounds("the output", k, 0, s.recv_sizes[k], s.output_rows);
    }
  }
  return absl::OkStatus();
}

// Rows `sizes[k]` at `offsets[k]`, against the same rows one after the other.
// Packed: from the tensor; else to it.
std::vector<RowRange> Ranges(const std::vector<int64_t>& offsets,
                             const std::vector<int64_t>& sizes, bool packed) {
  std::vector<RowRange> ranges;
  size_t at = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto offset = static_cast<size_t>(offsets[k]);
    const auto rows = static_cast<size_t>(sizes[k]);
    ranges.push_back(packed ? RowRange{offset, at, rows}
                            : RowRange{at, offset, rows});
    at += rows;
  }
  return ranges;
}

// The ranges of out rows that are not empty, in order; overlaps are next to
// each other.
bool Overlap(std::vector<RowRange> ranges) {
  std::erase_if(ranges, [](const RowRange& r) { return r.rows == 0; });
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.out_row < b.out_row; });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].out_row < ranges[i - 1].out_row + ranges[i - 1].rows) {
      return true;
    }
  }
  return false;
}

// Where the rows from other members are in this member's output.
absl::StatusOr<std::vector<int64_t>> ReceivedOffsets(const RaggedSlices& s,
                                                     const std::byte* at) {
  std::vector<int64_t> offsets(s.count());
  std::memcpy(offsets.data(), at, s.count() * sizeof(int64_t));
  for (size_t k = 0; k < s.count(); ++k) {
    if (!IsWithin(offsets[k], s.recv_sizes[k], s.output_rows)) {
      return OutOfBounds("the output", k, offsets[k], s.recv_sizes[k],
                         s.output_rows);
    }
  }
  if (Overlap(Ranges(offsets, s.recv_sizes, /*packed=*/false))) {
    return absl::InvalidArgumentError(
        "ragged_all_to_all: rows of two slices overlap in the output");
  }
  return offsets;
}

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

struct RaggedTensors {
  const TensorType& operand;
  const TensorType& output;
};

RaggedTensors TensorsOf(const AxisCollective& op,
                        absl::Span<const TensorType> types) {
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  return forward ? RaggedTensors{types[0], types[1]}
                 : RaggedTensors{types[5], types[0]};
}

RaggedSlices SlicesOf(const AxisCollective& op,
                      absl::Span<const TensorType> all_types,
                      absl::Span<const void* const> inputs) {
  const auto& [operand, output] = TensorsOf(op, all_types);
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  const auto types = all_types.subspan(forward ? 2 : 1, 4);
  const auto vectors = inputs.subspan(forward ? 2 : 1, 4);
  RaggedSlices s{
      .operand_rows = operand.shape[0],
      .output_rows = output.shape[0],
      .row_elements = Product(operand.shape, 1, operand.shape.size()),
      .dtype = operand.dtype,
      .input_offsets = ReadVector(types[0], vectors[0]),
      .send_sizes = ReadVector(types[1], vectors[1]),
      .output_offsets = ReadVector(types[2], vectors[2]),
      .recv_sizes = ReadVector(types[3], vectors[3])};
  s.row_bytes = s.row_elements * SizeOf(operand.dtype);
  return s;
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
  if (absl::Status status = Check(s); !status.ok()) return status;

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

namespace {

using KernelQueue = transport::DeviceContext::KernelQueue;
using LocalKind = kernels::LocalStep::Kind;

// One call on a device: what is enqueued around its two transfers. `slices` is
// also read by work that the stream runs on the host.
struct DeviceRagged {
  std::shared_ptr<const RaggedSlices> slices;
  std::shared_ptr<CallOutcome> outcome;
  const void* in = nullptr;  // operand; transpose: the cotangent of the output
  void* out = nullptr;       // output; transpose: cotangent of the operand
  // Parts of the scratch memory: i64 for each slice, and rows.
  std::byte *input_offsets, *own_offsets, *offsets, *packed, *received;
  int64_t* staged_offsets = nullptr;

  size_t vector_bytes() const { return slices->count() * sizeof(int64_t); }

  static void Store(KernelQueue& queue, const std::vector<int64_t>& list,
                    std::byte* to) {
    queue.RunLocalStep(
        {.kind = LocalKind::kStoreList, .out = to, .list = list});
  }
  void Move(KernelQueue& queue, LocalKind kind,
            const std::vector<int64_t>& sizes, const void* offsets,
            const void* from, void* to, int64_t tensor_rows) const {
    queue.RunLocalStep({.kind = kind,
                        .in = from,
                        .other = offsets,
                        .out = to,
                        .count = static_cast<size_t>(tensor_rows),
                        .row = slices->row_bytes,
                        .list = sizes});
  }

  void StoreOffsets(KernelQueue& queue) const {
    Store(queue, slices->output_offsets, own_offsets);
  }
  void PackOperand(KernelQueue& queue) const {
    Store(queue, slices->input_offsets, input_offsets);
    Move(queue, LocalKind::kPackSlices, slices->send_sizes, input_offsets, in,
         packed, slices->operand_rows);
  }
  void UnpackOutput(KernelQueue& queue, const void* initial_output,
                    size_t output_bytes) const {
    CheckOffsets(queue);
    if (out != initial_output) queue.Copy(initial_output, out, output_bytes);
    Move(queue, LocalKind::kUnpackSlices, slices->recv_sizes, offsets, received,
         out, slices->output_rows);
  }
  void PackCotangent(KernelQueue& queue, void* output_cotangent,
                     size_t output_bytes) const {
    CheckOffsets(queue);
    Move(queue, LocalKind::kPackSlices, slices->recv_sizes, offsets, in, packed,
         slices->output_rows);
    if (output_cotangent != in) queue.Copy(in, output_cotangent, output_bytes);
    Move(queue, LocalKind::kZeroSlices, slices->recv_sizes, offsets, nullptr,
         output_cotangent, slices->output_rows);
  }
  void UnpackOperand(KernelQueue& queue, size_t operand_bytes) const {
    queue.Zero(out, operand_bytes);
    for (const RowRange& r :
         Ranges(slices->input_offsets, slices->send_sizes, false)) {
      queue.RunLocalStep(
          {.kind = LocalKind::kAdd,
           .in = received + r.in_row * slices->row_bytes,
           .out = static_cast<std::byte*>(out) + r.out_row * slices->row_bytes,
           .count = r.rows * slices->row_elements,
           .dtype = slices->dtype});
    }
  }

 private:
  // On the host, once the stream has copied the received offsets.
  void CheckOffsets(KernelQueue& queue) const {
    queue.Copy(offsets, staged_offsets, vector_bytes());
    queue.CallOnce(
        [slices = slices, outcome = outcome,
         staged = reinterpret_cast<const std::byte*>(staged_offsets)] {
          const absl::Status status = ReceivedOffsets(*slices, staged).status();
          if (outcome != nullptr) outcome->Update(status);
          return status;
        });
  }
};

// Consecutive parts of a block of memory, each aligned.
class MemoryParts {
 public:
  size_t Add(size_t bytes) {
    constexpr size_t kAlignment = 64;
    return std::exchange(
        bytes_, bytes_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace

absl::Status RunRaggedOnDevice(const AxisCollective& op,
                               absl::Span<const TensorType> types,
                               absl::Span<const void* const> inputs,
                               absl::Span<void* const> outputs,
                               Communicator& communicator, DeviceCalls& device,
                               Stream& stream,
                               std::shared_ptr<CallOutcome> outcome) {
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  const auto& [operand, output] = TensorsOf(op, types);
  const size_t operand_bytes = BytesOf(operand), output_bytes = BytesOf(output);
  const auto slices =
      std::make_shared<const RaggedSlices>(SlicesOf(op, types, inputs));
  if (absl::Status status = Check(*slices); !status.ok()) return status;

  const int members = communicator.size();
  const PeerBytes sent =
      ByPeer(forward ? slices->send_sizes : slices->recv_sizes, members,
             slices->row_bytes);
  const PeerBytes got =
      ByPeer(forward ? slices->recv_sizes : slices->send_sizes, members,
             slices->row_bytes);
  DeviceRagged call{.slices = slices,
                    .outcome = std::move(outcome),
                    .in = inputs[0],
                    .out = outputs[0]};
  MemoryParts parts;
  const size_t input_offsets = parts.Add(call.vector_bytes());
  const size_t own_offsets = parts.Add(call.vector_bytes());
  const size_t offsets = parts.Add(call.vector_bytes());
  const size_t packed = parts.Add(sent.total);
  const size_t received = parts.Add(got.total);

  const auto enqueue = [&](const DeviceCalls::DeviceScratch& memory) {
    call.input_offsets = memory.scratch + input_offsets;
    call.own_offsets = memory.scratch + own_offsets;
    call.offsets = memory.scratch + offsets;
    call.packed = memory.scratch + packed;
    call.received = memory.scratch + received;
    call.staged_offsets = reinterpret_cast<int64_t*>(memory.staging);
    transport::DeviceContext& context = device.context();
    absl::Status status = context.Perform(&stream, [&](KernelQueue& queue) {
      call.StoreOffsets(queue);
      if (forward) call.PackOperand(queue);
      return queue.status();
    });
    if (!status.ok()) return status;
    status = communicator.AllToAll(
        call.own_offsets, call.offsets,
        slices->count() / static_cast<size_t>(members), DType::kI64, stream);
    if (status.ok() && !forward) {
      status = context.Perform(&stream, [&](KernelQueue& queue) {
        call.PackCotangent(queue, outputs[1], output_bytes);
        return queue.status();
      });
    }
    if (!status.ok()) return status;
    status = communicator.AllToAllV(call.packed, sent.counts, sent.offsets,
                                    call.received, got.counts, got.offsets,
                                    DType::kU8, stream);
    if (!status.ok()) return status;
    return context.Perform(&stream, [&](KernelQueue& queue) {
      if (forward) {
        call.UnpackOutput(queue, inputs[1], output_bytes);
      } else {
        call.UnpackOperand(queue, operand_bytes);
      }
      return queue.status();
    });
  };
  return device.RunWithMemory(parts.bytes(), call.vector_bytes(), stream,
                              enqueue);
}

}  // namespace lockstep::collectives

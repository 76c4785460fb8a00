#include <utility>
#include <vector>

#include "client/collectives/ragged.h"
#include "client/collectives/ragged_slices.h"
#include "client/collectives/shapes.h"
#include "kernels/local_step.h"

namespace lockstep::collectives {
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
    for (const kernels::RowRange& r :
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
  if (absl::Status status = CheckSlices(*slices); !status.ok()) return status;

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

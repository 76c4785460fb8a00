#include "tests/support/forwarding_communicator.h"

namespace lockstep {

using transport::CheckedPart;
using transport::CollectiveKind;
using transport::CollectiveOp;

absl::Status ForwardingCommunicator::Pass(
    const CollectiveOp& call, Stream& stream,
    absl::FunctionRef<absl::Status()> forward) {
  if (absl::Status may = Before(call, stream); !may.ok()) return may;
  return forward();
}

absl::Status ForwardingCommunicator::AllReduce(const void* in, void* out,
                                               size_t count, DType dtype,
                                               ReduceOp op, Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllReduce,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype,
               .op = op},
              stream, [&] {
                return inner_->AllReduce(in, out, count, dtype, op, stream);
              });
}

absl::Status ForwardingCommunicator::AllReduceMean(void* data, size_t count,
                                                   DType dtype, int divisor,
                                                   Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllReduce,
               .in = data,
               .out = data,
               .count = count,
               .dtype = dtype,
               .op = ReduceOp::kMean,
               .divisor = divisor},
              stream, [&] {
                return transport::AllReduceMean(*inner_, data, count, dtype,
                                                divisor, stream);
              });
}

absl::Status ForwardingCommunicator::AllReducePairs(const void* in, void* out,
                                                    size_t count, DType dtype,
                                                    double factor,
                                                    Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllReduce,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype,
               .in_pairs = true,
               .factor = factor},
              stream, [&] {
                return transport::AllReducePairs(*inner_, in, out, count, dtype,
                                                 factor, stream);
              });
}

absl::Status ForwardingCommunicator::CheckedAllReduce(
    void* data, size_t count, DType dtype, ReduceOp op,
    std::vector<CheckedPart> checks, Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllReduce,
               .in = data,
               .out = data,
               .count = count,
               .dtype = dtype,
               .op = op},
              stream, [&] {
                return transport::CheckedAllReduce(
                    *inner_, data, count, dtype, op, std::move(checks), stream);
              });
}

absl::Status ForwardingCommunicator::CheckedAllReducePairs(
    void* data, size_t count, DType dtype, double factor,
    std::vector<CheckedPart> checks, Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllReduce,
               .in = data,
               .out = data,
               .count = count,
               .dtype = dtype,
               .in_pairs = true,
               .factor = factor},
              stream, [&] {
                return transport::CheckedAllReducePairs(
                    *inner_, data, count, dtype, factor, std::move(checks),
                    stream);
              });
}

absl::Status ForwardingCommunicator::ReduceScatter(const void* in, void* out,
                                                   size_t count, DType dtype,
                                                   ReduceOp op,
                                                   Stream& stream) {
  return Pass({.kind = CollectiveKind::kReduceScatter,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype,
               .op = op},
              stream, [&] {
                return inner_->ReduceScatter(in, out, count, dtype, op, stream);
              });
}

absl::Status ForwardingCommunicator::AllGather(const void* in, void* out,
                                               size_t count, DType dtype,
                                               Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllGather,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype},
              stream,
              [&] { return inner_->AllGather(in, out, count, dtype, stream); });
}

absl::Status ForwardingCommunicator::Broadcast(void* buffer, size_t count,
                                               DType dtype, int root,
                                               Stream& stream) {
  return Pass({.kind = CollectiveKind::kBroadcast,
               .out = buffer,
               .count = count,
               .dtype = dtype,
               .peer = root},
              stream, [&] {
                return inner_->Broadcast(buffer, count, dtype, root, stream);
              });
}

absl::Status ForwardingCommunicator::AllToAll(const void* in, void* out,
                                              size_t count, DType dtype,
                                              Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllToAll,
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype},
              stream,
              [&] { return inner_->AllToAll(in, out, count, dtype, stream); });
}

absl::Status ForwardingCommunicator::AllToAllV(
    const void* in, absl::Span<const size_t> in_counts,
    absl::Span<const size_t> in_offsets, void* out,
    absl::Span<const size_t> out_counts, absl::Span<const size_t> out_offsets,
    DType dtype, Stream& stream) {
  return Pass({.kind = CollectiveKind::kAllToAllV,
               .in = in,
               .out = out,
               .dtype = dtype,
               .in_counts = {in_counts.begin(), in_counts.end()},
               .in_offsets = {in_offsets.begin(), in_offsets.end()},
               .out_counts = {out_counts.begin(), out_counts.end()},
               .out_offsets = {out_offsets.begin(), out_offsets.end()}},
              stream, [&] {
                return inner_->AllToAllV(in, in_counts, in_offsets, out,
                                         out_counts, out_offsets, dtype,
                                         stream);
              });
}

absl::Status ForwardingCommunicator::Send(const void* buffer, size_t count,
                                          DType dtype, int peer,
                                          Stream& stream) {
  return Pass({.kind = CollectiveKind::kSend,
               .in = buffer,
               .count = count,
               .dtype = dtype,
               .peer = peer},
              stream,
              [&] { return inner_->Send(buffer, count, dtype, peer, stream); });
}

absl::Status ForwardingCommunicator::Recv(void* buffer, size_t count,
                                          DType dtype, int peer,
                                          Stream& stream) {
  return Pass({.kind = CollectiveKind::kRecv,
               .out = buffer,
               .count = count,
               .dtype = dtype,
               .peer = peer},
              stream,
              [&] { return inner_->Recv(buffer, count, dtype, peer, stream); });
}

absl::Status ForwardingCommunicator::SendBoxes(void* packed,
                                               transport::BoxOperands boxes,
                                               int peer, Stream& stream) {
  return Pass({.kind = CollectiveKind::kSend,
               .in = packed,
               .count = static_cast<size_t>(boxes.message->bytes),
               .dtype = DType::kU8,
               .peer = peer},
              stream, [&] {
                return transport::SendBoxes(*inner_, packed, std::move(boxes),
                                            peer, stream);
              });
}

absl::Status ForwardingCommunicator::RecvBoxes(void* packed,
                                               transport::BoxOperands boxes,
                                               int peer, Stream& stream) {
  return Pass({.kind = CollectiveKind::kRecv,
               .out = packed,
               .count = static_cast<size_t>(boxes.message->bytes),
               .dtype = DType::kU8,
               .peer = peer},
              stream, [&] {
                return transport::RecvBoxes(*inner_, packed, std::move(boxes),
                                            peer, stream);
              });
}

absl::Status ForwardingCommunicator::Barrier(Stream& stream) {
  return Pass({.kind = CollectiveKind::kBarrier}, stream,
              [&] { return inner_->Barrier(stream); });
}

}  // namespace lockstep

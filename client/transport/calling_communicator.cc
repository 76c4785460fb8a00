#include "client/transport/calling_communicator.h"

#include <utility>

namespace lockstep::transport {

absl::Status CallingCommunicator::AllReduce(const void* in, void* out,
                                            size_t count, DType dtype,
                                            ReduceOp op, Stream& stream) {
  return Submit({.kind = CallKind::kAllReduce,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .op = op},
                stream);
}

absl::Status CallingCommunicator::AllReduceMean(void* data, size_t count,
                                                DType dtype, int divisor,
                                                Stream& stream) {
  return Submit({.kind = CallKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .op = ReduceOp::kMean,
                 .divisor = divisor},
                stream);
}

absl::Status CallingCommunicator::CheckedAllReduce(
    void* data, size_t count, DType dtype, ReduceOp op,
    std::vector<CheckedPart> checks, Stream& stream) {
  return Submit({.kind = CallKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .op = op,
                 .checks = std::move(checks)},
                stream);
}

absl::Status CallingCommunicator::CheckedAllReducePairs(
    void* data, size_t count, DType dtype, double factor,
    std::vector<CheckedPart> checks, Stream& stream) {
  return Submit({.kind = CallKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .in_pairs = true,
                 .factor = factor,
                 .checks = std::move(checks)},
                stream);
}

absl::Status CallingCommunicator::AllReducePairs(const void* in, void* out,
                                                 size_t count, DType dtype,
                                                 double factor,
                                                 Stream& stream) {
  return Submit({.kind = CallKind::kAllReduce,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .in_pairs = true,
                 .factor = factor},
                stream);
}

absl::Status CallingCommunicator::ReduceScatter(const void* in, void* out,
                                                size_t count, DType dtype,
                                                ReduceOp op, Stream& stream) {
  return Submit({.kind = CallKind::kReduceScatter,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .op = op},
                stream);
}

absl::Status CallingCommunicator::AllGather(const void* in, void* out,
                                            size_t count, DType dtype,
                                            Stream& stream) {
  return Submit({.kind = CallKind::kAllGather,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype},
                stream);
}

absl::Status CallingCommunicator::Broadcast(void* buffer, size_t count,
                                            DType dtype, int root,
                                            Stream& stream) {
  return Submit({.kind = CallKind::kBroadcast,
                 .out = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = root},
                stream);
}

absl::Status CallingCommunicator::AllToAll(const void* in, void* out,
                                           size_t count, DType dtype,
                                           Stream& stream) {
  return Submit({.kind = CallKind::kAllToAll,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype},
                stream);
}

absl::Status CallingCommunicator::AllToAllV(
    const void* in, absl::Span<const size_t> in_counts,
    absl::Span<const size_t> in_offsets, void* out,
    absl::Span<const size_t> out_counts, absl::Span<const size_t> out_offsets,
    DType dtype, Stream& stream) {
  return Submit({.kind = CallKind::kAllToAllV,
                 .in = in,
                 .out = out,
                 .dtype = dtype,
                 .in_counts = {in_counts.begin(), in_counts.end()},
                 .in_offsets = {in_offsets.begin(), in_offsets.end()},
                 .out_counts = {out_counts.begin(), out_counts.end()},
                 .out_offsets = {out_offsets.begin(), out_offsets.end()}},
                stream);
}

absl::Status CallingCommunicator::Send(const void* buffer, size_t count,
                                       DType dtype, int peer, Stream& stream) {
  return Submit({.kind = CallKind::kSend,
                 .in = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer},
                stream);
}

absl::Status CallingCommunicator::Recv(void* buffer, size_t count, DType dtype,
                                       int peer, Stream& stream) {
  return Submit({.kind = CallKind::kRecv,
                 .out = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer},
                stream);
}

absl::Status CallingCommunicator::Barrier(Stream& stream) {
  return Submit({.kind = CallKind::kBarrier}, stream);
}

absl::Status CallingCommunicator::Group(
    absl::FunctionRef<absl::Status()> body) {
  if (group_) return JoinOuterGroup(body);
  group_.emplace();
  const absl::Status status = body();
  std::vector<Call> calls = std::move(group_->calls);
  Stream* const stream = group_->stream;
  group_.reset();
  if (status.ok() && !calls.empty()) Launch(calls, *stream);
  return status;
}

absl::Status CallingCommunicator::JoinOuterGroup(
    absl::FunctionRef<absl::Status()> body) {
  const size_t before = group_->calls.size();
  absl::Status status = body();
  if (!status.ok()) group_->calls.resize(before);
  return status;
}

absl::Status CallingCommunicator::Submit(Call&& call, Stream& stream) {
  if (absl::Status checked = CheckStream(stream); !checked.ok()) {
    return checked;
  }
  if (absl::Status checked = CheckCall(call, rank_, size_); !checked.ok()) {
    return checked;
  }
  if (!group_) {
    Launch({&call, 1}, stream);
    return absl::OkStatus();
  }
  if (group_->stream != nullptr && group_->stream != &stream) {
    return absl::InvalidArgumentError(
        "the calls of one group name two streams");
  }
  group_->stream = &stream;
  group_->calls.push_back(std::move(call));
  return absl::OkStatus();
}

}  // namespace lockstep::transport

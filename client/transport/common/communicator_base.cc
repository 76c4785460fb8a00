#include "client/transport/common/communicator_base.h"

#include <utility>

namespace lockstep::transport {

absl::Status CommunicatorBase::AllReduce(const void* in, void* out,
                                         size_t count, DType dtype, ReduceOp op,
                                         Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllReduce,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .op = op},
                stream);
}

absl::Status CommunicatorBase::AllReduceMean(void* data, size_t count,
                                             DType dtype, int divisor,
                                             Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .op = ReduceOp::kMean,
                 .divisor = divisor},
                stream);
}

absl::Status CommunicatorBase::CheckedAllReduce(void* data, size_t count,
                                                DType dtype, ReduceOp op,
                                                std::vector<CheckedPart> checks,
                                                Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .op = op,
                 .checks = std::move(checks)},
                stream);
}

absl::Status CommunicatorBase::CheckedAllReducePairs(
    void* data, size_t count, DType dtype, double factor,
    std::vector<CheckedPart> checks, Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllReduce,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = dtype,
                 .in_pairs = true,
                 .factor = factor,
                 .checks = std::move(checks)},
                stream);
}

absl::Status CommunicatorBase::AllReducePairs(const void* in, void* out,
                                              size_t count, DType dtype,
                                              double factor, Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllReduce,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .in_pairs = true,
                 .factor = factor},
                stream);
}

absl::Status CommunicatorBase::ReduceScatter(const void* in, void* out,
                                             size_t count, DType dtype,
                                             ReduceOp op, Stream& stream) {
  return Submit({.kind = CollectiveKind::kReduceScatter,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype,
                 .op = op},
                stream);
}

absl::Status CommunicatorBase::AllGather(const void* in, void* out,
                                         size_t count, DType dtype,
                                         Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllGather,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype},
                stream);
}

absl::Status CommunicatorBase::Broadcast(void* buffer, size_t count,
                                         DType dtype, int root,
                                         Stream& stream) {
  return Submit({.kind = CollectiveKind::kBroadcast,
                 .out = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = root},
                stream);
}

absl::Status CommunicatorBase::AllToAll(const void* in, void* out, size_t count,
                                        DType dtype, Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllToAll,
                 .in = in,
                 .out = out,
                 .count = count,
                 .dtype = dtype},
                stream);
}

absl::Status CommunicatorBase::AllToAllV(const void* in,
                                         absl::Span<const size_t> in_counts,
                                         absl::Span<const size_t> in_offsets,
                                         void* out,
                                         absl::Span<const size_t> out_counts,
                                         absl::Span<const size_t> out_offsets,
                                         DType dtype, Stream& stream) {
  return Submit({.kind = CollectiveKind::kAllToAllV,
                 .in = in,
                 .out = out,
                 .dtype = dtype,
                 .in_counts = {in_counts.begin(), in_counts.end()},
                 .in_offsets = {in_offsets.begin(), in_offsets.end()},
                 .out_counts = {out_counts.begin(), out_counts.end()},
                 .out_offsets = {out_offsets.begin(), out_offsets.end()}},
                stream);
}

absl::Status CommunicatorBase::Send(const void* buffer, size_t count,
                                    DType dtype, int peer, Stream& stream) {
  return Submit({.kind = CollectiveKind::kSend,
                 .in = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer},
                stream);
}

absl::Status CommunicatorBase::Recv(void* buffer, size_t count, DType dtype,
                                    int peer, Stream& stream) {
  return Submit({.kind = CollectiveKind::kRecv,
                 .out = buffer,
                 .count = count,
                 .dtype = dtype,
                 .peer = peer},
                stream);
}

absl::Status CommunicatorBase::SendBoxes(void* packed, BoxOperands boxes,
                                         int peer, Stream& stream) {
  const auto bytes = static_cast<size_t>(boxes.message->bytes);
  return Submit({.kind = CollectiveKind::kSend,
                 .in = packed,
                 .out = packed,
                 .count = bytes,
                 .dtype = DType::kU8,
                 .peer = peer,
                 .boxes = std::move(boxes)},
                stream);
}

absl::Status CommunicatorBase::RecvBoxes(void* packed, BoxOperands boxes,
                                         int peer, Stream& stream) {
  const auto bytes = static_cast<size_t>(boxes.message->bytes);
  return Submit({.kind = CollectiveKind::kRecv,
                 .out = packed,
                 .count = bytes,
                 .dtype = DType::kU8,
                 .peer = peer,
                 .boxes = std::move(boxes)},
                stream);
}

absl::Status CommunicatorBase::Barrier(Stream& stream) {
  return Submit({.kind = CollectiveKind::kBarrier}, stream);
}

absl::Status CommunicatorBase::Group(absl::FunctionRef<absl::Status()> body) {
  if (group_) return JoinOuterGroup(body);
  group_.emplace(OpenGroup{.calls = std::move(no_calls_)});
  const absl::Status status = body();
  std::vector<CollectiveOp> calls = std::move(group_->calls);
  Stream* const stream = group_->stream;
  group_.reset();
  if (status.ok() && !calls.empty()) Launch(calls, *stream);
  calls.clear();
  no_calls_ = std::move(calls);
  return status;
}

absl::Status CommunicatorBase::JoinOuterGroup(
    absl::FunctionRef<absl::Status()> body) {
  const size_t before = group_->calls.size();
  absl::Status status = body();
  if (!status.ok()) group_->calls.resize(before);
  return status;
}

absl::Status CommunicatorBase::Submit(CollectiveOp&& call, Stream& stream) {
  if (absl::Status checked = CheckStream(stream); !checked.ok()) {
    return checked;
  }
  if (absl::Status checked = CheckOp(call, rank_, size_); !checked.ok()) {
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

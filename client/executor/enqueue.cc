#include "client/executor/enqueue.h"

#include "absl/strings/str_format.h"
#include "client/transport/extended_collectives.h"

namespace lockstep::executor {

using plan::Transfer;
using plan::TransferKind;

namespace {

ReduceOp OpOf(const PlannedTransfer& planned) {
  return planned.is_scaled_later ? ReduceOp::kSum : planned.transfer->op;
}

}  // namespace

absl::Status Enqueue(const PlannedTransfer& planned, Communicator& communicator,
                     Stream& stream) {
  const Transfer& t = *planned.transfer;
  const auto& [in, out] = planned.operands;
  const size_t count = static_cast<size_t>(CountOf(t));
  const size_t share = count / static_cast<size_t>(communicator.size());
  switch (t.kind) {
    case TransferKind::kAllReduce:
      if (planned.divisor > 0) {
        return transport::AllReduceMean(communicator, out, count, t.dtype,
                                        planned.divisor, stream);
      }
      return communicator.AllReduce(in, out, count, t.dtype, OpOf(planned),
                                    stream);
    case TransferKind::kReduceScatter:
      return communicator.ReduceScatter(in, out, share, t.dtype, OpOf(planned),
                                        stream);
    case TransferKind::kAllGather:
      return communicator.AllGather(in, out, count, t.dtype, stream);
    case TransferKind::kBroadcast:
      return communicator.Broadcast(out, count, t.dtype, t.root, stream);
    case TransferKind::kAllToAll:
      return communicator.AllToAll(in, out, share, t.dtype, stream);
    case TransferKind::kSend:
      if (planned.boxes.message != nullptr) {
        return transport::SendBoxes(communicator, out, planned.boxes, t.peer,
                                    stream);
      }
      return communicator.Send(in, count, t.dtype, t.peer, stream);
    case TransferKind::kRecv:
      if (planned.boxes.message != nullptr) {
        return transport::RecvBoxes(communicator, out, planned.boxes, t.peer,
                                    stream);
      }
      return communicator.Recv(out, count, t.dtype, t.peer, stream);
    case TransferKind::kBarrier: return communicator.Barrier(stream);
    case TransferKind::kAllReducePairs:
      return transport::AllReducePairs(communicator, in, out, count, t.dtype,
                                       1.0 / t.divisor, stream);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "the plan has a transfer of kind %d, which is none", t.kind));
}

absl::Status EnqueueChecked(const PlannedTransfer& planned,
                            const std::vector<transport::CheckedPart>& checks,
                            Communicator& communicator, Stream& stream) {
  const Transfer& t = *planned.transfer;
  const size_t count = static_cast<size_t>(CountOf(t));
  void* const data = planned.operands.out;
  if (t.kind == TransferKind::kAllReducePairs) {
    return transport::CheckedAllReducePairs(communicator, data, count, t.dtype,
                                            1.0 / t.divisor, checks, stream);
  }
  return transport::CheckedAllReduce(communicator, data, count, t.dtype, t.op,
                                     checks, stream);
}

absl::Status EnqueueTogether(absl::Span<const PlannedTransfer> planned,
                             Communicator& communicator, Stream& stream) {
  if (planned.size() == 1) return Enqueue(planned[0], communicator, stream);
  return communicator.Group([&] {
    for (const PlannedTransfer& each : planned) {
      absl::Status status = Enqueue(each, communicator, stream);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  });
}

}  // namespace lockstep::executor

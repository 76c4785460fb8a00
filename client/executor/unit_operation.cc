#include "client/executor/unit_operation.h"

#include <algorithm>

namespace lockstep::executor {
namespace {

// Operations after a gradient's reduction need not delay the next reduction,
// unless they produce data that a later transfer of the lane sends. An update
// waits for them: it is behind the verdict, whose unit is not aside (it has a
// kReadSummary), so its queue waits for the side stream first.
bool MayRunAside(const plan::Transfer& transfer) {
  return std::none_of(transfer.then.begin(), transfer.then.end(),
                      [](const plan::LocalOp& op) {
                        return op.kind == plan::LocalKind::kSumPairs ||
                               op.kind == plan::LocalKind::kZeroUnlessGiven ||
                               op.kind == plan::LocalKind::kReadSummary;
                      });
}

}  // namespace

UnitOperation::UnitOperation(plan::TransferRef first,
                             std::vector<const plan::Transfer*> unit,
                             LaneOwner* owner, Communicator* communicator)
    : owner_(*owner), communicator_(*communicator) {
  for (const plan::Transfer* transfer : unit) {
    planned_.push_back({.transfer = transfer,
                        .operands = owner_.OperandsOf(first, *transfer)});
    ++first.index;
  }
  if (unit.size() == 1) checks_ = owner_.ChecksOf(*unit[0]);
  if (checks_.empty()) {
    for (PlannedTransfer& planned : planned_) {
      planned.is_scaled_later = owner_.ScalesMean(*planned.transfer);
    }
  }
  is_aside_ = std::any_of(unit.begin(), unit.end(),
                          [](const auto* t) { return !t->then.empty(); }) &&
              std::all_of(unit.begin(), unit.end(),
                          [](const auto* t) { return MayRunAside(*t); });
}

absl::Status UnitOperation::Apply(KernelQueue& kernel_queue, Side side) {
  for (const PlannedTransfer& planned : planned_) {
    absl::Status applied =
        owner_.Apply(kernel_queue, *planned.transfer, side, !checks_.empty());
    if (applied.ok()) applied = kernel_queue.status();
    if (!applied.ok()) return applied;
  }
  return absl::OkStatus();
}

absl::Status UnitOperation::Before(KernelQueue& kernel_queue) {
  is_sent_ = false;
  return Apply(kernel_queue, Side::kBefore);
}

absl::Status UnitOperation::Communicate(Stream& stream) {
  absl::Status sent;
  if (!checks_.empty()) {
    sent = EnqueueChecked(planned_[0], checks_, communicator_, stream);
  } else {
    for (PlannedTransfer& planned : planned_) {
      planned.divisor = owner_.DivisorOf(*planned.transfer);
    }
    sent = EnqueueTogether(planned_, communicator_, stream);
  }
  is_sent_ = sent.ok();
  return sent;
}

void UnitOperation::Then(KernelQueue& kernel_queue,
                         const absl::Status& launched) {
  const plan::Transfer& first = *planned_[0].transfer;
  const absl::Status sent = communicator_.status();
  if (!launched.ok() && (sent.ok() || !is_sent_)) {
    return owner_.Failed(first, -1, launched);
  }
  if (!sent.ok() && !owner_.RunsAfterFailure(first)) {
    return owner_.Failed(first, first.communicator, sent);
  }
  const absl::Status applied = Apply(kernel_queue, Side::kThen);
  if (!applied.ok()) owner_.Failed(first, -1, applied);
}

}  // namespace lockstep::executor

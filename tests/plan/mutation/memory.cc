#include "tests/plan/mutation/memory.h"

namespace lockstep::plan::oracle {

Memory::Memory(const Expected& expected, const Wiring& wiring) {
  const std::vector<Step>& steps = wiring.steps();
  accesses_.resize(steps.size());
  contributes_to_.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const int number = static_cast<int>(i);
    if (steps[i].transfer == nullptr) {
      ReadTask(expected, wiring, number);
    } else {
      ReadTransfer(wiring, number);
    }
  }
}

void Memory::ReadTask(const Expected& expected, const Wiring& wiring,
                      int number) {
  const Step& step = wiring.steps()[number];
  const auto touch = [&](const std::vector<int>& messages, bool writes) {
    for (const int message : messages) {
      const Step& of = wiring.steps()[message];
      accesses_[number].push_back(
          {Make(Kind::kBuffer, of.rank, of.transfer->buffer), writes});
    }
  };
  touch(step.inputs, false);
  touch(step.rereads, false);
  touch(step.outputs, true);
  const bool ends = step.role == Role::kLocalCompute ||
                    step.task->work == Work::kBackward ||
                    step.task->work == Work::kBackwardWeight;
  if (!ends) return;
  const size_t parameters = wiring.plan().parameters.size();
  for (int p = 0; p < static_cast<int>(parameters); ++p) {
    if (!expected.Holds(step.rank, p)) continue;
    if (step.task != nullptr && !expected.Feeds(step.task->stage, p)) continue;
    contributes_to_[number].push_back(p);
    accesses_[number].push_back({Make(Kind::kGradient, step.rank, p), true});
  }
}

void Memory::ReadTransfer(const Wiring& wiring, int number) {
  const Step& step = wiring.steps()[number];
  std::vector<Access>& accesses = accesses_[number];
  const auto touch_gradients = [&] {
    const Bucket& bucket = wiring.plan().buckets[step.transfer->bucket];
    for (const Slot& slot : bucket.slots) {
      accesses.push_back(
          {Make(Kind::kGradient, step.rank, slot.parameter), false});
    }
  };
  switch (step.role) {
    case Role::kSend:
    case Role::kReceive:
      accesses.push_back({Make(Kind::kBuffer, step.rank, step.transfer->buffer),
                          step.role == Role::kReceive});
      return;
    case Role::kSharedSum:
      accesses.push_back(
          {Make(Kind::kGradient, step.rank, step.parameter), true});
      return;
    case Role::kReduce:
    case Role::kReduceFlags: return touch_gradients();
    case Role::kExchange:
      touch_gradients();
      accesses.push_back(
          {Make(Kind::kPartial, step.rank, step.transfer->bucket), true});
      return;
    case Role::kGatherSums:
      accesses.push_back(
          {Make(Kind::kPartial, step.rank, step.transfer->bucket), false});
      return;
    case Role::kTask:
    case Role::kLocalCompute:
    case Role::kGatherParameters:
    case Role::kOther: return;
  }
}

}  // namespace lockstep::plan::oracle

#include "client/pipeline/handoffs.h"

#include <algorithm>
#include <set>

#include "plan/schedule/pipeline_shape.h"
#include "protocol/tensor_type.h"

namespace lockstep::pipeline {
namespace {

// Assigns a slot to each micro-batch and returns the number of slots. Slots are
// taken and released in the order of tasks.
int AssignSlots(const plan::RankPlan& rank, int boundary,
                const std::set<int>& users, std::map<int, int>& slot_of) {
  std::vector<int> free;
  std::map<int, size_t> ended;
  int slots = 0;
  for (const plan::Task& task : rank.tasks) {
    const int m = task.micro_batch;
    if (task.work == plan::Work::kForward && task.stage == boundary) {
      if (free.empty()) free.push_back(slots++);
      slot_of[m] = free.back();
      free.pop_back();
    }
    const bool ends = EndsMicroBatch(task.work) && users.contains(task.stage);
    if (ends && ++ended[m] == users.size()) free.push_back(slot_of[m]);
  }
  return slots;
}

std::vector<TensorView> Views(
    const std::vector<std::pair<TensorType, ArenaBuffer>>& parts) {
  std::vector<TensorView> views;
  for (const auto& [type, buffer] : parts) {
    views.push_back({buffer.data(), type});
  }
  return views;
}

}  // namespace

Handoffs::Handoffs(const plan::RankPlan& rank, const PipelineSpec& spec,
                   int stages)
    : last_boundary_(stages - 1) {
  std::set<int> here;
  for (const plan::Task& task : rank.tasks) here.insert(task.stage);
  for (const int stage : here) {
    const bool to_loss = stage == last_boundary_;
    if (!to_loss && !here.contains(stage + 1)) continue;
    Slots& slots = slots_[stage];
    const std::set<int> users =
        to_loss ? std::set<int>{stage} : std::set<int>{stage, stage + 1};
    slots.pairs.resize(AssignSlots(rank, stage, users, slots.of_micro_batch));
    if (!to_loss) slots.type = plan::ActivationAt(spec, stage);
  }
}

absl::Status Handoffs::Prepare(const Activation& output, const Event& free,
                               const Buffers::Allocate& allocate) {
  for (auto& [boundary, slots] : slots_) {
    const Activation& type = boundary == last_boundary_ ? output : slots.type;
    absl::Status made = Make(type, free, allocate, slots);
    if (!made.ok()) return made;
  }
  return absl::OkStatus();
}

absl::Status Handoffs::Make(const Activation& type, const Event& free,
                            const Buffers::Allocate& allocate, Slots& slots) {
  const auto make = [&](const Activation& activation, auto& parts) {
    parts.clear();
    for (const TensorType& part : activation.parts) {
      const int64_t bytes = std::max<int64_t>(BytesOf(part), 1);
      absl::StatusOr<ArenaBuffer> buffer = allocate(static_cast<size_t>(bytes));
      if (!buffer.ok()) return buffer.status();
      parts.emplace_back(part, *std::move(buffer));
    }
    return absl::OkStatus();
  };
  const auto is_made = [&](const Pair& pair) {
    return std::equal(pair.output.begin(), pair.output.end(),
                      type.parts.begin(), type.parts.end(),
                      [](const auto& had, const TensorType& wanted) {
                        return had.first == wanted;
                      });
  };
  for (Pair& pair : slots.pairs) {
    if (is_made(pair)) continue;
    absl::Status made = free.Wait();
    if (made.ok()) made = make(type, pair.output);
    if (made.ok()) made = make(GradientOf(type), pair.gradient);
    if (!made.ok()) return made;
  }
  return absl::OkStatus();
}

std::vector<TensorView> Handoffs::Output(int boundary, int micro_batch) const {
  const Slots& slots = slots_.at(boundary);
  return Views(slots.pairs[slots.of_micro_batch.at(micro_batch)].output);
}

std::vector<TensorView> Handoffs::Gradient(int boundary,
                                           int micro_batch) const {
  const Slots& slots = slots_.at(boundary);
  return Views(slots.pairs[slots.of_micro_batch.at(micro_batch)].gradient);
}

}  // namespace lockstep::pipeline

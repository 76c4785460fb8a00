#include "plan/pipeline/flow.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "plan/pipeline/buffers.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/schedule/play.h"
#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

// The position of each pass of a stage in its rank's order.
class TaskIndex {
 public:
  explicit TaskIndex(const Schedule& schedule)
      : micro_batches_(schedule.shape.micro_batches) {
    const size_t passes =
        static_cast<size_t>(schedule.shape.stages()) * micro_batches_;
    forward_.assign(passes, -1);
    gradient_.assign(passes, -1);
    end_.assign(passes, -1);
    for (const std::vector<Action>& order : schedule.ranks) {
      for (size_t i = 0; i < order.size(); ++i) Note(order[i], i);
    }
  }

  int Forward(int stage, int m) const { return forward_[Pass(stage, m)]; }
  int Gradient(int stage, int m) const { return gradient_[Pass(stage, m)]; }
  int End(int stage, int m) const { return end_[Pass(stage, m)]; }

 private:
  size_t Pass(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * micro_batches_ + micro_batch;
  }

  void Note(const Action& action, size_t index) {
    const size_t pass = Pass(action.stage, action.micro_batch);
    const int task = static_cast<int>(index);
    if (action.work == Work::kForward) forward_[pass] = task;
    if (GivesInputGradient(action.work)) gradient_[pass] = task;
    if (EndsMicroBatch(action.work)) end_[pass] = task;
  }

  const int micro_batches_;
  std::vector<int> forward_;
  std::vector<int> gradient_;
  std::vector<int> end_;
};

// The message that sends the result of an action to another rank; `from` is -1
// if no other rank needs the result.
Message MessageOf(const ScheduleShape& shape, const TaskIndex& index,
                  const Action& action, int rank, int task) {
  const bool is_gradient = GivesInputGradient(action.work);
  if (!is_gradient && action.work != Work::kForward) return {};
  const int next = action.stage + (is_gradient ? -1 : 1);
  if (next < 0 || next >= shape.stages()) return {};
  const int to = RankOf(shape, next);
  if (to == rank) return {};
  return {.boundary = std::min(action.stage, next),
          .micro_batch = action.micro_batch,
          .is_gradient = is_gradient,
          .from = rank,
          .from_task = task,
          .to = to,
          .to_task = is_gradient ? index.Gradient(next, action.micro_batch)
                                 : index.Forward(next, action.micro_batch)};
}

std::vector<Message> MessagesOf(const Schedule& schedule,
                                const TaskIndex& index,
                                const PlayedSchedule& played) {
  std::vector<Message> messages;
  for (int rank = 0; rank < schedule.shape.ranks; ++rank) {
    const std::vector<Action>& order = schedule.ranks[rank];
    for (size_t i = 0; i < order.size(); ++i) {
      Message message =
          MessageOf(schedule.shape, index, order[i], rank, static_cast<int>(i));
      if (message.from < 0) continue;
      message.at = played.ranks[rank][i].end;
      messages.push_back(std::move(message));
    }
  }
  // A rank ends one task at a time, so no two messages of a rank are equal. At
  // equal times a rank launches receives before sends where possible: a send
  // that waits for its task would delay the receive.
  const auto key = [](const Message& m) {
    return std::tuple(m.at, !m.is_gradient, m.is_gradient ? -m.from : m.from);
  };
  std::sort(
      messages.begin(), messages.end(),
      [&](const Message& a, const Message& b) { return key(a) < key(b); });
  return messages;
}

void NoteEnds(const PlayedSchedule& played, Flow& flow) {
  flow.stage_ends.resize(flow.schedule.shape.stages());
  for (size_t rank = 0; rank < played.ranks.size(); ++rank) {
    const std::vector<Moments>& moments = played.ranks[rank];
    flow.ends.push_back(moments.back().end);
    for (size_t i = 0; i < moments.size(); ++i) {
      const int stage = flow.schedule.ranks[rank][i].stage;
      flow.stage_ends[stage] = {static_cast<int>(i), moments[i].end};
    }
  }
}

absl::Status AddParts(const PipelineSpec& spec, Message& message) {
  const Activation& forward = ActivationAt(spec, message.boundary);
  const Activation sent = message.is_gradient ? GradientOf(forward) : forward;
  for (size_t i = 0; i < sent.parts.size(); ++i) {
    const absl::StatusOr<uint64_t> tag =
        TagOf(spec, {.boundary = message.boundary,
                     .micro_batch = message.micro_batch,
                     .is_gradient = message.is_gradient,
                     .part = static_cast<int>(i)});
    if (!tag.ok()) return tag.status();
    message.parts.push_back({.type = sent.parts[i], .tag = *tag});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Flow> FlowOf(const PipelineSpec& spec, const Mesh& mesh) {
  if (absl::Status valid = Validate(spec, mesh); !valid.ok()) return valid;
  absl::StatusOr<Schedule> schedule = MakeSchedule(ShapeOf(spec, mesh));
  if (!schedule.ok()) return schedule.status();
  const absl::StatusOr<PlayedSchedule> played = Play(*schedule, {});
  if (!played.ok()) return played.status();

  const TaskIndex index(*schedule);
  Flow flow{.schedule = *std::move(schedule)};
  flow.messages = MessagesOf(flow.schedule, index, *played);
  BufferPools pools;
  for (size_t i = 0; i < flow.messages.size(); ++i) {
    Message& message = flow.messages[i];
    if (absl::Status s = AddParts(spec, message); !s.ok()) return s;
    const int stage = message.boundary + (message.is_gradient ? 0 : 1);
    const int end = index.End(stage, message.micro_batch);
    pools.Place(message, static_cast<int>(i),
                {.task = end, .at = played->ranks[message.to][end].end});
  }
  NoteEnds(*played, flow);
  return flow;
}

}  // namespace lockstep::plan

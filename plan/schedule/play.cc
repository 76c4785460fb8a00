#include "plan/schedule/play.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kNotYet = -1;

class SchedulePlayer {
 public:
  SchedulePlayer(const Schedule& schedule, const WorkTimes& times)
      : schedule_(schedule),
        shape_(schedule.shape),
        times_(times),
        next_(schedule.ranks.size(), 0),
        free_at_(schedule.ranks.size(), 0),
        forward_end_(Passes(), kNotYet),
        gradient_end_(Passes(), kNotYet) {
    played_.ranks.resize(schedule.ranks.size());
  }

  absl::StatusOr<PlayedSchedule> Run() {
    for (int rank = 0; rank < shape_.ranks; ++rank) awake_.push_back(rank);
    while (!awake_.empty()) {
      const int rank = awake_.front();
      awake_.pop_front();
      Advance(rank);
    }
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      if (next_[rank] < schedule_.ranks[rank].size()) return Stuck(rank);
    }
    Measure();
    return std::move(played_);
  }

 private:
  size_t Passes() const {
    return static_cast<size_t>(shape_.stages()) * shape_.micro_batches;
  }

  int64_t& ForwardEnd(int stage, int micro_batch) {
    return forward_end_[static_cast<size_t>(stage) * shape_.micro_batches +
                        micro_batch];
  }
  int64_t& GradientEnd(int stage, int micro_batch) {
    return gradient_end_[static_cast<size_t>(stage) * shape_.micro_batches +
                         micro_batch];
  }

  // When all inputs of the action exist; kNotYet if one does not.
  int64_t ReadyAt(const Action& action) {
    const int m = action.micro_batch;
    switch (action.work) {
      case Work::kForward:
        return action.stage == 0 ? 0 : ForwardEnd(action.stage - 1, m);
      case Work::kBackwardWeight: return GradientEnd(action.stage, m);
      case Work::kBackward:
      case Work::kBackwardInput: break;
    }
    const int64_t own = ForwardEnd(action.stage, m);
    if (own == kNotYet || action.stage + 1 == shape_.stages()) return own;
    const int64_t gradient = GradientEnd(action.stage + 1, m);
    return gradient == kNotYet ? kNotYet : std::max(own, gradient);
  }

  void Advance(int rank) {
    const std::vector<Action>& order = schedule_.ranks[rank];
    for (; next_[rank] < order.size(); ++next_[rank]) {
      const Action& action = order[next_[rank]];
      const int64_t ready = ReadyAt(action);
      if (ready == kNotYet) return;
      const int64_t begin = std::max(ready, free_at_[rank]);
      Finish(action, rank, begin);
    }
  }

  void Finish(const Action& action, int rank, int64_t begin) {
    const int64_t end = begin + times_.Of(action.work);
    free_at_[rank] = end;
    played_.ranks[rank].push_back({begin, end});
    if (action.work == Work::kForward) {
      ForwardEnd(action.stage, action.micro_batch) = end;
      Wake(action.stage + 1);
    } else if (GivesInputGradient(action.work)) {
      GradientEnd(action.stage, action.micro_batch) = end;
      Wake(action.stage - 1);
    }
  }

  void Wake(int stage) {
    if (stage < 0 || stage >= shape_.stages()) return;
    awake_.push_back(RankOf(shape_, stage));
  }

  absl::Status Stuck(int rank) const {
    const Action& action = schedule_.ranks[rank][next_[rank]];
    return absl::FailedPreconditionError(absl::StrFormat(
        "rank %d waits for ever with the %s of stage %d, micro-batch %d", rank,
        Name(action.work), action.stage, action.micro_batch));
  }

  void Measure() {
    int64_t busy = 0;
    for (const std::vector<Moments>& rank : played_.ranks) {
      for (const Moments& moments : rank) busy += moments.end - moments.begin;
    }
    for (const int64_t end : free_at_) {
      played_.makespan = std::max(played_.makespan, end);
    }
    played_.bubble =
        1 - static_cast<double>(busy) / (static_cast<double>(shape_.ranks) *
                                         static_cast<double>(played_.makespan));
  }

  const Schedule& schedule_;
  const ScheduleShape& shape_;
  const WorkTimes& times_;
  std::vector<size_t> next_;      // next action of each rank
  std::vector<int64_t> free_at_;  // when each rank is free
  std::vector<int64_t> forward_end_;
  std::vector<int64_t> gradient_end_;  // of the input
  std::deque<int> awake_;              // ranks that may be able to continue
  PlayedSchedule played_;
};

}  // namespace

int64_t WorkTimes::Of(Work work) const {
  switch (work) {
    case Work::kForward: return forward;
    case Work::kBackward: return backward_input + backward_weight;
    case Work::kBackwardInput: return backward_input;
    case Work::kBackwardWeight: return backward_weight;
  }
  return 0;
}

absl::StatusOr<PlayedSchedule> Play(const Schedule& schedule,
                                    const WorkTimes& times) {
  return SchedulePlayer(schedule, times).Run();
}

std::optional<double> ProvenBubble(const ScheduleShape& shape,
                                   const WorkTimes& times) {
  const double others = shape.ranks - 1;
  const double m = shape.micro_batches;
  const double f = static_cast<double>(times.forward);
  const double b = static_cast<double>(times.backward_input);
  const double w = static_cast<double>(times.backward_weight);
  switch (shape.kind) {
    case PipelineSchedule::kNone: return std::nullopt;
    case PipelineSchedule::kGPipe:
    case PipelineSchedule::kOneFOneB:
    case PipelineSchedule::kInterleaved:
      return others / (shape.virtual_stages * m + others);
    case PipelineSchedule::kZbH1: {
      if (w > f || w > b) return std::nullopt;
      const double lost = others * (f + b - w);
      return lost / (m * (f + b + w) + lost);
    }
    case PipelineSchedule::kZbV:
      if (f != b || b != w) return std::nullopt;
      return others / (6 * m + others);
  }
  return std::nullopt;
}

}  // namespace lockstep::plan

#include "plan/timeline/timeline.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

int64_t BytesOf(const Transfer& transfer) {
  return CountOf(transfer) * static_cast<int64_t>(SizeOf(transfer.dtype));
}

// The bytes that a rank sends: in an all-reduce twice all slices but its own.
double BytesSent(const Plan& plan, const Transfer& transfer) {
  if (transfer.kind == TransferKind::kBarrier) return 0;
  const double bytes = static_cast<double>(BytesOf(transfer));
  if (IsPointToPoint(transfer.kind)) return bytes;
  const double size = static_cast<double>(
      plan.communicators[transfer.communicator].ranks.size());
  const double others = (size - 1) / size;
  const bool there_and_back = transfer.kind == TransferKind::kAllReduce ||
                              transfer.kind == TransferKind::kAllReducePairs;
  return bytes * others * (there_and_back ? 2 : 1);
}

bool MovesNothing(const Plan& plan, const Transfer& transfer) {
  return plan.communicators[transfer.communicator].ranks.size() == 1;
}

absl::Status Judge(const Plan& plan, const CostModel& costs) {
  const size_t stages = static_cast<size_t>(StagesOf(plan));
  if (costs.stages.size() != 1 && costs.stages.size() != stages) {
    return absl::InvalidArgumentError(
        absl::StrFormat("times of %d stages are given, but there are %d",
                        costs.stages.size(), stages));
  }
  for (const WorkTimes& times : costs.stages) {
    if (std::min({times.forward, times.backward_input, times.backward_weight}) <
        1) {
      return absl::InvalidArgumentError("the time of a stage is less than 1");
    }
  }
  if (costs.latency < 0 || costs.per_byte < 0) {
    return absl::InvalidArgumentError("a transfer costs less than nothing");
  }
  return absl::OkStatus();
}

void Measure(const Plan& plan, Timeline& timeline) {
  int64_t busy = 0;
  int64_t ranks = 0;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankSpans& spans = timeline.ranks[rank];
    if (!spans.tasks.empty()) ++ranks;
    for (const Span& span : spans.tasks) {
      busy += span.end - span.begin;
      timeline.compute_end = std::max(timeline.compute_end, span.end);
    }
    for (const std::vector<Span>& lane : spans.lanes) {
      for (const Span& span : lane) {
        timeline.end = std::max(timeline.end, span.end);
      }
    }
  }
  timeline.end = std::max(timeline.end, timeline.compute_end);
  if (timeline.compute_end == 0) return;
  timeline.bubble = 1 - static_cast<double>(busy) /
                            (static_cast<double>(ranks) *
                             static_cast<double>(timeline.compute_end));
}

}  // namespace

int StagesOf(const Plan& plan) {
  int stages = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Task& task : rank.tasks) {
      stages = std::max(stages, task.stage + 1);
    }
  }
  return stages;
}

absl::StatusOr<Timeline> TimelineOf(const Plan& plan, const CostModel& costs) {
  if (absl::Status good = Judge(plan, costs); !good.ok()) return good;
  const Durations durations{
      .task =
          [&](const Task& task) {
            const size_t stage = costs.stages.size() == 1 ? 0 : task.stage;
            return costs.stages[stage].Of(task.work);
          },
      .transfer =
          [&](const Transfer& transfer) {
            if (MovesNothing(plan, transfer) || transfer.halo >= 0) {
              return int64_t{0};
            }
            return costs.latency +
                   static_cast<int64_t>(BytesSent(plan, transfer) *
                                        costs.per_byte);
          }};
  auto spans = PlayInTime(plan, TrafficOf(plan), QueueSharing::kInLaunchOrder,
                          durations);
  if (!spans.has_value()) {
    return absl::FailedPreconditionError("the plan deadlocks: verify it");
  }
  Timeline timeline{.ranks = *std::move(spans)};
  Measure(plan, timeline);
  return timeline;
}

LinkTraffics LinksOf(const Plan& plan) {
  LinkTraffics links;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const Lane& lane : plan.ranks[rank].lanes) {
      for (const Transfer& transfer : lane.transfers) {
        if (transfer.kind != TransferKind::kSend || transfer.halo >= 0) {
          continue;
        }
        const int peer =
            plan.communicators[transfer.communicator].ranks[transfer.peer];
        LinkTraffic& link = links[{static_cast<int>(rank), peer}];
        ++link.messages;
        link.bytes += BytesOf(transfer);
      }
    }
  }
  return links;
}

LinkTraffics LinksOfHalo(const Plan& plan, int halo) {
  LinkTraffics links;
  const std::vector<int>& ranks = plan.halos[halo].ranks;
  for (const int rank : ranks) {
    for (const HaloRoutes& routes : plan.ranks[rank].halos) {
      if (routes.halo != halo) continue;
      for (const HaloMessage& message : routes.sends) {
        links[{rank, ranks[message.peer]}] = {1, message.bytes};
      }
    }
  }
  return links;
}

std::map<int, int> ActivationsKept(const RankPlan& rank) {
  std::map<int, int> kept;
  std::map<int, int> most;
  for (const Task& task : rank.tasks) {
    int& now = kept[task.stage];
    if (task.work == Work::kForward) ++now;
    most[task.stage] = std::max(most[task.stage], now);
    if (EndsMicroBatch(task.work)) --now;
  }
  return most;
}

int64_t BufferBytes(const RankPlan& rank) {
  std::set<int> seen;
  int64_t bytes = 0;
  for (const Lane& lane : rank.lanes) {
    for (const Transfer& transfer : lane.transfers) {
      if (transfer.buffer < 0 || !seen.insert(transfer.buffer).second) continue;
      bytes += BytesOf(transfer);
    }
  }
  return bytes;
}

}  // namespace lockstep::plan

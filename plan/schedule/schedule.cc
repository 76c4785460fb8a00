#include "plan/schedule/schedule.h"

#include "absl/strings/str_format.h"
#include "base/text/count.h"
#include "plan/schedule/orders.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kActionsMax = int64_t{1} << 20;

template <typename... Args>
absl::Status Outside(const ScheduleShape& shape,
                     const absl::FormatSpec<Args...>& format,
                     const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "schedule %s with %d stages, %d micro-batches and %d virtual stages: %s",
      Name(shape.kind), shape.ranks, shape.micro_batches, shape.virtual_stages,
      absl::StrFormat(format, args...)));
}

absl::Status ValidateSizes(const ScheduleShape& shape) {
  if (shape.ranks < 1 || shape.micro_batches < 1 || shape.virtual_stages < 1) {
    return Outside(shape, "each must be at least 1");
  }
  if (shape.micro_batches > kActionsMax / shape.ranks / shape.virtual_stages) {
    return Outside(shape, "their product must be at most %d", kActionsMax);
  }
  return absl::OkStatus();
}

absl::Status WantVirtualStages(const ScheduleShape& shape, int wanted) {
  if (shape.virtual_stages == wanted) return absl::OkStatus();
  return Outside(shape, "it takes %s of each rank",
                 Count(wanted, "virtual stage"));
}

absl::Status WantOneForEachStage(const ScheduleShape& shape) {
  if (shape.micro_batches >= shape.ranks) return absl::OkStatus();
  return Outside(shape, "it takes at least as many micro-batches as stages");
}

absl::Status ValidateInterleaved(const ScheduleShape& shape) {
  if (shape.virtual_stages < 2) {
    return Outside(shape, "it takes at least 2 virtual stages of each rank");
  }
  if (shape.micro_batches % shape.ranks != 0) {
    return Outside(shape, "the micro-batches must be a multiple of the stages");
  }
  return absl::OkStatus();
}

std::vector<Order> EachRank(const ScheduleShape& shape,
                            Order (*order_of)(const ScheduleShape&, int)) {
  std::vector<Order> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    orders.push_back(order_of(shape, rank));
  }
  return orders;
}

}  // namespace

std::string_view Name(Work work) {
  switch (work) {
    case Work::kForward: return "forward";
    case Work::kBackward: return "backward";
    case Work::kBackwardInput: return "input gradient";
    case Work::kBackwardWeight: return "weight gradient";
  }
  return "?";
}

int RankOf(const ScheduleShape& shape, int stage) {
  const int chunk = stage / shape.ranks;
  const int place = stage % shape.ranks;
  const bool runs_back = shape.kind == PipelineSchedule::kZbV && chunk % 2 == 1;
  return runs_back ? shape.ranks - 1 - place : place;
}

int StageOf(const ScheduleShape& shape, int rank, int chunk) {
  const bool runs_back = shape.kind == PipelineSchedule::kZbV && chunk % 2 == 1;
  return chunk * shape.ranks + (runs_back ? shape.ranks - 1 - rank : rank);
}

absl::Status ValidateShape(const ScheduleShape& shape) {
  if (absl::Status sizes = ValidateSizes(shape); !sizes.ok()) return sizes;
  switch (shape.kind) {
    case PipelineSchedule::kGPipe:
    case PipelineSchedule::kOneFOneB: return WantVirtualStages(shape, 1);
    case PipelineSchedule::kInterleaved: return ValidateInterleaved(shape);
    case PipelineSchedule::kZbH1:
    case PipelineSchedule::kZbV: {
      const bool in_a_v = shape.kind == PipelineSchedule::kZbV;
      absl::Status fits = WantVirtualStages(shape, in_a_v ? 2 : 1);
      return fits.ok() ? WantOneForEachStage(shape) : fits;
    }
    case PipelineSchedule::kNone: break;
  }
  return Outside(shape, "there is no such schedule");
}

absl::StatusOr<Schedule> MakeSchedule(const ScheduleShape& shape) {
  if (absl::Status valid = ValidateShape(shape); !valid.ok()) return valid;
  switch (shape.kind) {
    case PipelineSchedule::kGPipe:
      return Schedule{shape, EachRank(shape, GPipeOrder)};
    case PipelineSchedule::kOneFOneB:
      return Schedule{shape, EachRank(shape, OneFOneBOrder)};
    case PipelineSchedule::kInterleaved:
      return Schedule{shape, EachRank(shape, InterleavedOrder)};
    case PipelineSchedule::kZbH1:
      return Schedule{shape, EachRank(shape, ZbH1Order)};
    case PipelineSchedule::kZbV: return Schedule{shape, ZbVOrders(shape)};
    case PipelineSchedule::kNone: break;
  }
  return absl::InternalError("a valid schedule that nobody makes");
}

}  // namespace lockstep::plan

#include "plan/pipeline/lanes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/bucket_transfers.h"
#include "plan/halo/lanes.h"
#include "plan/halo/routes.h"
#include "plan/norm_ranges.h"
#include "plan/pipeline/flow.h"
#include "plan/pipeline/shared.h"
#include "plan/pipeline/stages.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/shard.h"

namespace lockstep::plan {
namespace {

constexpr int kGradientLane = 0;

// A plan is made, sent and verified while jobs of the same coordinator run.
constexpr size_t kHaloBoxesOfPlanMax = size_t{1} << 18;

size_t BoxesOf(const HaloRoutes& routes) {
  size_t boxes = routes.own.size() + routes.fills.size();
  for (const HaloMessage& message : routes.sends) boxes += message.boxes.size();
  for (const HaloMessage& message : routes.receives) {
    boxes += message.boxes.size();
  }
  return boxes;
}

// A launch on all ranks of one communicator at one time.
struct PlannedLaunch {
  int64_t at = 0;
  enum class Kind { kGather, kMessage, kShared, kBucket } kind = Kind::kMessage;
  int index = 0;  // of the message, shared parameter or bucket; of a
                  // gather, the bucket's counted from the last
  auto operator<=>(const PlannedLaunch&) const = default;
};

// Appends transfers to the lanes of a rank, in the order of launches.
class RankBuilder {
 public:
  explicit RankBuilder(RankPlan* rank) : rank_(*rank) {
    rank_ = {.lanes = {{.kind = LaneKind::kGradient, .name = "gradient"}}};
  }

  int LaneCalled(LaneKind kind, const std::string& name) {
    const auto [known, is_new] =
        lanes_.try_emplace(name, static_cast<int>(rank_.lanes.size()));
    if (is_new) AddLane(kind, name);
    return known->second;
  }

  int AddLane(LaneKind kind, const std::string& name) {
    rank_.lanes.push_back({.kind = kind, .name = name});
    return static_cast<int>(rank_.lanes.size()) - 1;
  }

  TransferRef Append(int lane, Transfer transfer) {
    std::vector<Transfer>& transfers = rank_.lanes[lane].transfers;
    const TransferRef ref{lane, static_cast<int>(transfers.size())};
    transfers.push_back(std::move(transfer));
    rank_.launch_order.push_back(ref);
    return ref;
  }

  // May be called in any order of tasks.
  void Need(int task, const TransferRef& ref) {
    rank_.tasks[task].after.push_back(ref);
  }

  RankPlan& plan() { return rank_; }
  int LastTask() const { return static_cast<int>(rank_.tasks.size()) - 1; }

 private:
  RankPlan& rank_;
  absl::flat_hash_map<std::string, int> lanes_;
};

class Layer {
 public:
  Layer(Plan* plan, const std::vector<bool>& sums_in_pairs, bool by_records)
      : plan_(*plan),
        sums_in_pairs_(sums_in_pairs),
        by_records_(by_records),
        counted_(CountedParameters(*plan)) {
    plan_.ranks.assign(plan_.mesh.WorldSize(), {});
    for (RankPlan& rank : plan_.ranks) builders_.emplace_back(&rank);
    after_.resize(plan_.buckets.size());
  }

  absl::Status Lay() {
    if (HasPipeline(plan_.pipeline)) {
      if (absl::Status s = ReadPipeline(); !s.ok()) return s;
    }
    completions_.emplace(plan_, flow_, place_);
    if (absl::Status s = completions_->CheckHolders(); !s.ok()) return s;
    for (const PlannedLaunch& launch : LaunchesInOrder()) Append(launch);
    if (absl::Status s = AppendHalos(); !s.ok()) return s;
    AppendVerdict();
    return absl::OkStatus();
  }

 private:
  // --- Reading ---

  absl::Status ReadPipeline() {
    absl::StatusOr<Flow> flow = FlowOf(plan_.pipeline, plan_.mesh);
    if (!flow.ok()) return flow.status();
    flow_ = *std::move(flow);
    columns_ = plan_.mesh.GroupsOver({plan_.pipeline.axis});
    place_.resize(plan_.ranks.size());
    for (const std::vector<int>& column : columns_) {
      for (size_t i = 0; i < column.size(); ++i) {
        place_[column[i]] = static_cast<int>(i);
        CopyTasks(flow_.schedule.ranks[i], plan_.ranks[column[i]].tasks);
      }
    }
    for (size_t i = 0; i < plan_.communicators.size(); ++i) {
      communicator_called_[plan_.communicators[i].name] = static_cast<int>(i);
    }
    shared_.emplace(plan_);
    std::vector<std::pair<int, int>> ends;
    for (const std::vector<int>& column : columns_) {
      ends.emplace_back(column.front(), EndOf(column));
    }
    return shared_->Check(ends);
  }

  static void CopyTasks(const std::vector<Action>& order,
                        std::vector<Task>& tasks) {
    for (const Action& action : order) {
      tasks.push_back({.work = action.work,
                       .stage = action.stage,
                       .micro_batch = action.micro_batch});
    }
  }

  // The rank of a column (one pipeline) that has the last stage.
  int EndOf(const std::vector<int>& column) const {
    const ScheduleShape& shape = flow_.schedule.shape;
    return column[RankOf(shape, shape.stages() - 1)];
  }

  // --- Ordering ---

  std::vector<PlannedLaunch> LaunchesInOrder() const {
    std::vector<PlannedLaunch> launches;
    for (size_t i = 0; i < flow_.messages.size(); ++i) {
      launches.push_back({flow_.messages[i].at, PlannedLaunch::Kind::kMessage,
                          static_cast<int>(i)});
    }
    const size_t shared = shared_ ? shared_->size() : 0;
    for (size_t i = 0; i < shared; ++i) {
      launches.push_back({LastEnd(columns_[0]), PlannedLaunch::Kind::kShared,
                          static_cast<int>(i)});
    }
    AddBuckets(launches);
    AddGathers(launches);
    std::sort(launches.begin(), launches.end());
    return launches;
  }

  int64_t LastEnd(const std::vector<int>& ranks) const {
    int64_t end = 0;
    if (flow_.ends.empty()) return end;
    for (const int rank : ranks) end = std::max(end, flow_.ends[place_[rank]]);
    return end;
  }

  // The buckets of a rank keep the order of Plan::buckets, even if another
  // member is ready for a later one first.
  void AddBuckets(std::vector<PlannedLaunch>& launches) const {
    std::vector<int64_t> latest(plan_.ranks.size(), 0);
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      const Bucket& bucket = plan_.buckets[i];
      const std::vector<int>& ranks =
          plan_.communicators[bucket.communicator].ranks;
      int64_t at = SharedEnd(bucket);
      for (const int rank : ranks) {
        at = std::max({at, completions_->Of(bucket, rank).at, latest[rank]});
      }
      for (const int rank : ranks) latest[rank] = at;
      launches.push_back(
          {at, PlannedLaunch::Kind::kBucket, static_cast<int>(i)});
    }
  }

  // Gathers the parameters updated in the last step, before all other
  // transfers. The forward pass first needs the parameters whose gradients are
  // ready last, so the buckets are in reverse order.
  void AddGathers(std::vector<PlannedLaunch>& launches) const {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      if (!plan_.buckets[BucketOfGather(i)].sharded) continue;
      launches.push_back(
          {-1, PlannedLaunch::Kind::kGather, static_cast<int>(i)});
    }
  }
  size_t BucketOfGather(size_t index) const {
    return plan_.buckets.size() - 1 - index;
  }

  int64_t SharedEnd(const Bucket& bucket) const {
    const bool waits = shared_ && shared_->AnyIn(bucket);
    return waits ? LastEnd(columns_[0]) : 0;
  }

  // --- Writing ---

  void Append(const PlannedLaunch& launch) {
    switch (launch.kind) {
      case PlannedLaunch::Kind::kGather:
        return AppendGather(static_cast<int>(BucketOfGather(launch.index)));
      case PlannedLaunch::Kind::kMessage:
        for (const std::vector<int>& column : columns_) {
          AppendMessage(launch.index, column);
        }
        return;
      case PlannedLaunch::Kind::kShared:
        for (const std::vector<int>& column : columns_) {
          AppendShared(launch.index, column);
        }
        return;
      case PlannedLaunch::Kind::kBucket: AppendBucket(launch.index); return;
    }
  }

  void AppendMessage(int index, const std::vector<int>& column) {
    const Message& message = flow_.messages[index];
    const int from = column[message.from];
    const int to = column[message.to];
    const int communicator = CommunicatorOf(
        absl::StrCat(plan_.pipeline.axis, "@", from, ">", to), {from, to});
    const int out = builders_[from].LaneCalled(LaneKind::kPipeline,
                                               absl::StrCat("to rank ", to));
    const int in = builders_[to].LaneCalled(LaneKind::kPipeline,
                                            absl::StrCat("from rank ", from));
    for (const MessagePart& part : message.parts) {
      Transfer transfer{.communicator = communicator,
                        .dtype = part.type.dtype,
                        .shape = part.type.shape,
                        .tag = part.tag,
                        .group = message.parts.size() > 1 ? index + 1 : 0};
      transfer.kind = TransferKind::kSend;
      AppendSend(from, out, transfer, part, index);
      transfer.kind = TransferKind::kRecv;
      AppendRecv(to, in, transfer, part, index);
    }
  }

  void AppendSend(int rank, int lane, Transfer transfer,
                  const MessagePart& part, int index) {
    const int task = flow_.messages[index].from_task;
    transfer.peer = 1;
    transfer.after_task = task;
    transfer.buffer = part.send_buffer;
    RankBuilder& sender = builders_[rank];
    if (part.reuses_message >= 0) {
      for (const TransferRef& sent : sends_[{rank, part.reuses_message}]) {
        if (At(rank, sent).buffer != part.send_buffer) continue;
        sender.Need(task, sent);
      }
    }
    sends_[{rank, index}].push_back(sender.Append(lane, std::move(transfer)));
  }

  void AppendRecv(int rank, int lane, Transfer transfer,
                  const MessagePart& part, int index) {
    transfer.peer = 0;
    transfer.after_task = part.recv_after_task;
    transfer.buffer = part.recv_buffer;
    RankBuilder& receiver = builders_[rank];
    receiver.Need(flow_.messages[index].to_task,
                  receiver.Append(lane, std::move(transfer)));
  }

  const Transfer& At(int rank, const TransferRef& ref) const {
    return plan_.ranks[rank].lanes[ref.lane].transfers[ref.index];
  }

  // Sums the gradients of a parameter of the first and the last stage before
  // each is reduced over its replicas.
  void AppendShared(int index, const std::vector<int>& column) {
    const int first = column.front();
    const int last = EndOf(column);
    if (first == last) return;
    const int communicator =
        CommunicatorOf(absl::StrCat(plan_.pipeline.axis, "@", first, "+", last),
                       {first, last});
    const Parameter& parameter = shared_->On(index, first);
    for (const int rank : {first, last}) {
      RankBuilder& builder = builders_[rank];
      const TransferRef ref =
          builder.Append(builder.LaneCalled(LaneKind::kPipeline, "shared"),
                         {.kind = TransferKind::kAllReduce,
                          .communicator = communicator,
                          .dtype = parameter.dtype,
                          .shape = parameter.shape,
                          .after_task = builder.LastTask()});
      after_[shared_->BucketOn(index, rank)].push_back({rank, ref});
    }
  }

  void AppendGather(int index) {
    const Bucket& bucket = plan_.buckets[index];
    const std::vector<int>& ranks =
        plan_.communicators[bucket.communicator].ranks;
    const int64_t slice =
        SliceOf(bucket, static_cast<int>(ranks.size()), 0).count;
    for (const int rank : ranks) {
      builders_[rank].Append(kGradientLane,
                             {.kind = TransferKind::kAllGather,
                              .communicator = bucket.communicator,
                              .dtype = bucket.dtype,
                              .shape = {slice},
                              .bucket = index});
    }
  }

  void AppendBucket(int index) {
    const Bucket& bucket = plan_.buckets[index];
    const std::vector<int>& ranks =
        plan_.communicators[bucket.communicator].ranks;
    for (size_t position = 0; position < ranks.size(); ++position) {
      AppendBucketOn(ranks[position], index, static_cast<int>(position));
    }
  }

  void AppendBucketOn(int rank, int index, int position) {
    const Bucket& bucket = plan_.buckets[index];
    const int task = completions_->Of(bucket, rank).task;
    std::vector<Transfer> transfers = BucketTransfers(
        plan_, index, position, sums_in_pairs_[bucket.communicator], counted_);
    for (size_t i = 0; i < transfers.size(); ++i) {
      Transfer& transfer = transfers[i];
      transfer.after_task = task;
      // The all-gather waits for the exchange before it in the lane.
      const bool follows = bucket.leaves > 0 && i > 0;
      for (const auto& [holder, ref] : after_[index]) {
        if (holder == rank && !follows) transfer.after.push_back(ref);
      }
      builders_[rank].Append(kGradientLane, std::move(transfer));
    }
  }

  // The caller launches them when it likes; their place in the launch order has
  // no effect.
  absl::Status AppendHalos() {
    size_t boxes = 0;
    for (size_t h = 0; h < plan_.halos.size(); ++h) {
      const Halo& halo = plan_.halos[h];
      auto routes = RoutesOf(halo, static_cast<int>(h));
      if (!routes.ok()) return routes.status();
      for (const HaloRoutes& of_rank : *routes) boxes += BoxesOf(of_rank);
      if (boxes > kHaloBoxesOfPlanMax) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "halo %s: the exchanges of all ranks up to this one copy %d boxes; "
            "a plan has at most %d",
            halo.name, boxes, kHaloBoxesOfPlanMax));
      }
      for (size_t member = 0; member < halo.ranks.size(); ++member) {
        RankBuilder& builder = builders_[halo.ranks[member]];
        for (Transfer& transfer : HaloTransfers(plan_, (*routes)[member])) {
          const int lane = builder.LaneCalled(
              LaneKind::kHalo,
              HaloLaneName(plan_.communicators[halo.communicator]));
          builder.Append(lane, std::move(transfer));
        }
        builder.plan().halos.push_back(std::move((*routes)[member]));
      }
    }
    return absl::OkStatus();
  }

  // Last on every rank.
  void AppendVerdict() {
    const std::vector<Transfer> transfers =
        VerdictTransfers(plan_, by_records_);
    for (RankBuilder& builder : builders_) {
      const int lane = builder.AddLane(LaneKind::kVerdict, "verdict");
      for (const Transfer& transfer : transfers) {
        builder.Append(lane, transfer);
      }
    }
  }

  int CommunicatorOf(const std::string& name, std::vector<int> ranks) {
    const auto [known, is_new] = communicator_called_.try_emplace(
        name, static_cast<int>(plan_.communicators.size()));
    if (is_new) plan_.communicators.push_back({name, std::move(ranks)});
    return known->second;
  }

  Plan& plan_;
  const std::vector<bool>& sums_in_pairs_;
  const bool by_records_;
  const std::vector<bool> counted_;  // of the parameters
  std::vector<RankBuilder> builders_;
  Flow flow_;
  std::vector<std::vector<int>> columns_;  // the ranks of each pipeline
  std::vector<int> place_;  // position of each rank in its pipeline
  std::optional<SharedParameters> shared_;
  std::optional<Completions> completions_;
  absl::flat_hash_map<std::string, int> communicator_called_;
  // By bucket: the transfers that it depends on, with their ranks.
  std::vector<std::vector<std::pair<int, TransferRef>>> after_;
  // By rank and message: the sends of the message's parts.
  std::map<std::pair<int, int>, std::vector<TransferRef>> sends_;
};

}  // namespace

absl::Status BuildLanes(Plan* plan, const std::vector<bool>& sums_in_pairs,
                        bool by_records) {
  return Layer(plan, sums_in_pairs, by_records).Lay();
}

}  // namespace lockstep::plan

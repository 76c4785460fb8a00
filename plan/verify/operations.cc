#include "plan/verify/operations.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/local_op_text.h"
#include "plan/records.h"
#include "plan/reduce_slices.h"
#include "plan/shard.h"
#include "plan/summary.h"
#include "plan/verify/pipelines.h"
#include "plan/verify/roster.h"

namespace lockstep::plan {
namespace {

// --- The two sides of a transfer --------------------------------------------

LocalOp Op(LocalKind kind, const Slice& elements) {
  return {.kind = kind, .offset = elements.offset, .count = elements.count};
}

// The operations that a transfer needs for its bucket on one rank.
class Needs {
 public:
  Needs(const Plan& plan, const Transfer& transfer, int position)
      : t_(transfer),
        bucket_(plan.buckets[transfer.bucket]),
        own_(SliceOf(bucket_,
                     static_cast<int>(
                         plan.communicators[bucket_.communicator].ranks.size()),
                     position)) {}

  std::vector<LocalOp> Before() const {
    std::vector<LocalOp> ops;
    if (IsAnnounced()) ops.push_back(ZeroUnlessGiven());
    // Sums of leaves have the transfer's type from the start.
    const bool sends_gradients = MovesGradients() && !Exchanges() &&
                                 t_.kind != TransferKind::kAllReducePairs;
    if (sends_gradients && t_.dtype != bucket_.dtype) {
      ops.push_back(Cast(bucket_.dtype, t_.dtype,
                         t_.kind == TransferKind::kAllGather ? own_ : All()));
      if (bucket_.error_feedback) ops.back().kind = LocalKind::kCastFeedback;
    }
    if (MovesFlags()) ops.push_back(Op(LocalKind::kWriteFlags, Flags()));
    return ops;
  }

  // Without norms.
  std::vector<LocalOp> Behind() const {
    std::vector<LocalOp> ops = BehindUpToNorms();
    if (IsAnnounced()) ops.push_back(ZeroUnlessGiven());
    return ops;
  }

  std::vector<LocalOp> BehindUpToNorms() const {
    std::vector<LocalOp> ops;
    if (Exchanges()) {
      ops.push_back(Op(LocalKind::kSumPairs, own_));
      ops.back().from = t_.dtype;
      ops.back().to = bucket_.dtype;
      ops.back().divisor = IsMean() ? bucket_.leaves : 1;
    }
    const bool casts = BringsGradients() && t_.dtype != bucket_.dtype;
    // With a wire dtype the transfer computes the mean.
    const bool rescales = IsAnnounced() && IsMean() && !bucket_.wire;
    const bool rescales_copy = rescales && casts;
    if (rescales_copy) ops.push_back(Rescale());
    if (casts) {
      ops.push_back(
          Cast(t_.dtype, bucket_.dtype,
               t_.kind == TransferKind::kReduceScatter ? own_ : All()));
    }
    if (MovesFlags()) ops.push_back(Op(LocalKind::kReadFlags, Flags()));
    if (rescales && !rescales_copy) ops.push_back(Rescale());
    return ops;
  }

  bool BringsGradients() const { return MovesGradients() && !Exchanges(); }

 private:
  // The flags of slices are reduced by a separate all-reduce.
  bool MovesFlags() const {
    return t_.kind == TransferKind::kAllReduce ||
           t_.kind == TransferKind::kAllReducePairs;
  }
  bool MovesGradients() const {
    return !HasSlices(bucket_) || t_.kind != TransferKind::kAllReduce;
  }
  bool Exchanges() const { return t_.kind == TransferKind::kAllToAll; }
  bool IsAnnounced() const { return bucket_.announced && MovesGradients(); }
  bool IsMean() const { return bucket_.op == ReduceOp::kMean; }

  Slice All() const { return {.offset = 0, .count = bucket_.flags_offset}; }
  Slice Flags() const {
    return {.offset = bucket_.flags_offset,
            .count = static_cast<int64_t>(bucket_.slots.size())};
  }
  LocalOp ZeroUnlessGiven() const {
    return Op(LocalKind::kZeroUnlessGiven, All());
  }
  LocalOp Rescale() const { return Op(LocalKind::kRescale, All()); }
  static LocalOp Cast(DType from, DType to, const Slice& elements) {
    LocalOp cast = Op(LocalKind::kCast, elements);
    cast.from = from;
    cast.to = to;
    return cast;
  }

  const Transfer& t_;
  const Bucket& bucket_;
  const Slice own_;
};

bool Has(const std::vector<LocalOp>& ops, LocalKind kind) {
  return std::any_of(ops.begin(), ops.end(),
                     [kind](const LocalOp& op) { return op.kind == kind; });
}

int64_t CountOfKind(const std::vector<LocalOp>& ops, LocalKind kind) {
  return std::count_if(ops.begin(), ops.end(),
                       [kind](const LocalOp& op) { return op.kind == kind; });
}

// The fault of the norms: they must be consecutive, after `before` operations.
std::string NormsFault(const std::vector<LocalOp>& then, size_t before,
                       bool may_have) {
  for (size_t i = 0; i < then.size(); ++i) {
    if (then[i].kind != LocalKind::kNorm) continue;
    if (!may_have) {
      return absl::StrFormat("has a %s, and brings no gradients",
                             Describe(then[i]));
    }
    const bool follows = i > 0 && then[i - 1].kind == LocalKind::kNorm;
    if (i != before && !follows) {
      return absl::StrFormat("has the %s behind it out of its order",
                             Describe(then[i]));
    }
  }
  return "";
}

}  // namespace

std::string SideFault(const std::vector<LocalOp>& given,
                      const std::vector<LocalOp>& needed,
                      const std::vector<LocalOp>& other_side,
                      const std::string& side) {
  const auto [at, wanted] =
      std::mismatch(given.begin(), given.end(), needed.begin(), needed.end());
  if (at == given.end() && wanted == needed.end()) return "";
  for (const LocalOp& op : needed) {
    if (!Has(given, op.kind)) {
      return absl::StrFormat("has no %s %s it", Describe(op), side);
    }
  }
  for (const LocalOp& op : given) {
    const int64_t times = CountOfKind(needed, op.kind);
    if (times == 0) {
      return absl::StrFormat(
          "has a %s %s it, which %s", Describe(op), side,
          Has(other_side, op.kind) ? "is of its other side" : "nothing needs");
    }
    if (CountOfKind(given, op.kind) > times) {
      return absl::StrFormat("has the %s %s it more than once", Describe(op),
                             side);
    }
  }
  // The kinds are the same; only order or fields differ.
  if (at->kind != wanted->kind) {
    return absl::StrFormat("has the %s %s it out of its order", Describe(*at),
                           side);
  }
  return absl::StrFormat("has a %s %s it, but needs a %s", Describe(*at), side,
                         Describe(*wanted));
}

std::string BucketOpsFault(const Plan& plan, const Transfer& transfer,
                           int position) {
  if (transfer.bucket < 0 || GathersParameters(plan, transfer)) {
    if (transfer.before.empty() && transfer.then.empty()) return "";
    return absl::StrFormat(
        "has a %s, which only the reduction of a bucket and a verdict have",
        Describe(transfer.before.empty() ? transfer.then[0]
                                         : transfer.before[0]));
  }
  const Needs needs(plan, transfer, position);
  const std::vector<LocalOp> before = needs.Before();
  const std::vector<LocalOp> behind = needs.Behind();
  std::string fault = SideFault(transfer.before, before, behind, "before");
  if (!fault.empty()) return fault;
  std::vector<LocalOp> then = transfer.then;
  std::erase_if(then,
                [](const LocalOp& op) { return op.kind == LocalKind::kNorm; });
  fault = SideFault(then, behind, before, "behind");
  if (!fault.empty()) return fault;
  return NormsFault(transfer.then, needs.BehindUpToNorms().size(),
                    needs.BringsGradients());
}

std::vector<Transfer> VerdictNeeded(const Plan& plan) {
  if (EndsByRecords(plan)) {
    Transfer gather{.kind = TransferKind::kAllGather,
                    .communicator = 0,
                    .dtype = DType::kU64,
                    .shape = {kRecordWords}};
    gather.before.resize(1);
    gather.before[0].kind = LocalKind::kWriteSummary;
    gather.then.resize(1);
    gather.then[0].kind = LocalKind::kReadSummary;
    return {gather};
  }
  const auto over_world = [](DType dtype, int64_t count, ReduceOp op) {
    return Transfer{.communicator = 0,
                    .dtype = dtype,
                    .shape = {count},
                    .op = op,
                    .group = 1};
  };
  std::vector<Transfer> needed;
  needed.push_back(over_world(DType::kF64, kSummarySums, ReduceOp::kSum));
  needed.push_back(over_world(DType::kU64, kSummaryMaxima, ReduceOp::kMax));
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.leaves == 0) continue;
    needed.push_back(over_world(DType::kF64, bucket.leaves, ReduceOp::kSum));
    break;
  }
  needed[0].before.resize(1);
  needed[0].before[0].kind = LocalKind::kWriteSummary;
  needed.back().then.resize(1);
  needed.back().then[0].kind = LocalKind::kReadSummary;
  return needed;
}

// --- Norms ------------------------------------------------------------------

namespace {

// The elements of a parameter that a rank counts.
struct CountedRange {
  int64_t begin = 0;
  int64_t end = 0;
  int rank = -1;
  auto operator<=>(const CountedRange&) const = default;
};

class NormCheck {
 public:
  NormCheck(const Plan& plan, Diagnostics& diagnostics)
      : plan_(plan),
        roster_(plan.communicators),
        pipelines_(plan),
        shared_(plan.pipeline.shared.begin(), plan.pipeline.shared.end()),
        diagnostics_(diagnostics),
        counted_(plan.parameters.size()) {}

  void Run() {
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      for (const Lane& lane : plan_.ranks[rank].lanes) {
        for (const Transfer& transfer : lane.transfers) {
          if (transfer.bucket < 0) continue;
          if (!ReadNorms(static_cast<int>(rank), transfer)) return;
        }
      }
    }
    ShareAmongReplicas();
    for (size_t p = 0; p < plan_.parameters.size(); ++p) {
      if (diagnostics_.full()) return;
      if (counted_of_[p] == static_cast<int>(p)) CheckParameter(p);
    }
  }

 private:
  template <typename... Args>
  bool Find(std::vector<int> ranks, const absl::FormatSpec<Args...>& format,
            const Args&... args) {
    diagnostics_.Add(Rule::kNorms, std::move(ranks),
                     absl::StrFormat(format, args...));
    return false;
  }

  bool ReadNorms(int rank, const Transfer& transfer) {
    const Bucket& bucket = plan_.buckets[transfer.bucket];
    for (const LocalOp& op : transfer.then) {
      if (op.kind != LocalKind::kNorm) continue;
      if (!IsWellFormed(rank, transfer.bucket, op)) return false;
      Add(bucket, rank, op);
    }
    return true;
  }

  bool IsWellFormed(int rank, int index, const LocalOp& op) {
    const Bucket& bucket = plan_.buckets[index];
    if (op.offset < 0 || op.count <= 0 || op.offset > bucket.flags_offset ||
        op.count > bucket.flags_offset - op.offset ||
        op != LocalOp{.kind = op.kind,
                      .offset = op.offset,
                      .count = op.count,
                      .leaf = op.leaf}) {
      return Find(
          {rank},
          "the %s of bucket %d is empty, not of its %d elements, or has "
          "a dtype or a divisor",
          Describe(op), index, bucket.flags_offset);
    }
    const int ranks =
        static_cast<int>(plan_.communicators[bucket.communicator].ranks.size());
    const int position = roster_.PositionOf(rank, bucket.communicator);
    const int leaves = bucket.leaves / ranks;
    const bool has_leaf =
        bucket.leaves == 0
            ? op.leaf == -1
            : op.leaf >= position * leaves && op.leaf < (position + 1) * leaves;
    if (!has_leaf) {
      return Find(
          {rank}, "the %s of bucket %d is not for %s", Describe(op), index,
          bucket.leaves == 0 ? "the rank itself" : "one of the rank's leaves");
    }
    const Slice part = PartOf(bucket, ranks, position, op.leaf);
    if (op.offset < part.offset ||
        op.offset + op.count > part.offset + part.count) {
      return Find({rank},
                  "the %s of bucket %d is not of the rank's part, elements %d "
                  "to %d",
                  Describe(op), index, part.offset, part.offset + part.count);
    }
    return true;
  }

  static Slice PartOf(const Bucket& bucket, int ranks, int position, int leaf) {
    if (bucket.leaves > 0) {
      return PairsSlice(bucket.total, bucket.leaves, leaf);
    }
    if (bucket.sharded) return SliceOf(bucket, ranks, position);
    return ReduceSlice(bucket.total, static_cast<int64_t>(SizeOf(bucket.dtype)),
                       ranks, position);
  }

  void Add(const Bucket& bucket, int rank, const LocalOp& op) {
    // Slots are in order and disjoint.
    auto slot = std::partition_point(
        bucket.slots.begin(), bucket.slots.end(),
        [&](const Slot& s) { return s.offset + s.count <= op.offset; });
    for (; slot != bucket.slots.end() && slot->offset < op.offset + op.count;
         ++slot) {
      const Slice part = PartIn(*slot, {op.offset, op.count});
      if (part.count == 0) continue;
      counted_[slot->parameter].push_back(
          {part.offset, part.offset + part.count, rank});
    }
  }

  // Replicas are parameters of one name in groups that differ only in the axes
  // of replication. The first of them collects the ranges of all.
  void ShareAmongReplicas() {
    std::map<std::pair<std::string, std::vector<int>>, int> first_of;
    counted_of_.resize(plan_.parameters.size());
    for (const Bucket& bucket : plan_.buckets) {
      const int rank = plan_.communicators[bucket.communicator].ranks[0];
      for (const Slot& slot : bucket.slots) {
        const Parameter& parameter = plan_.parameters[slot.parameter];
        counted_of_[slot.parameter] = slot.parameter;
        if (parameter.replicated_over.empty() && !IsShared(parameter)) {
          continue;
        }
        const int first =
            first_of
                .try_emplace({parameter.name, PlaceOf(parameter, rank)},
                             slot.parameter)
                .first->second;
        counted_of_[slot.parameter] = first;
        if (first == slot.parameter) continue;
        std::vector<CountedRange>& all = counted_[first];
        const std::vector<CountedRange>& these = counted_[slot.parameter];
        all.insert(all.end(), these.begin(), these.end());
      }
    }
  }

  bool IsShared(const Parameter& parameter) const {
    return pipelines_.exist() && shared_.contains(parameter.name);
  }

  // The coordinates shared by all replicas.
  std::vector<int> PlaceOf(const Parameter& parameter, int rank) const {
    const int last = pipelines_.stages() - 1;
    if (IsShared(parameter) && rank == pipelines_.HolderOf(last, rank)) {
      // The last stage's rank has the replica of the first stage's rank.
      rank = pipelines_.HolderOf(0, rank);
    }
    std::vector<int> place = plan_.mesh.CoordinatesOf(rank);
    const auto forget = [&](const std::string& axis) {
      place[plan_.mesh.AxisIndex(axis)] = 0;
    };
    for (const std::string& axis : parameter.axes) forget(axis);
    for (const std::string& axis : parameter.replicated_over) forget(axis);
    if (parameter.axes.empty()) place.assign(place.size(), 0);
    return place;
  }

  void CheckParameter(size_t index) {
    const Parameter& parameter = plan_.parameters[index];
    std::vector<CountedRange>& all = counted_[index];
    std::sort(all.begin(), all.end());
    int64_t next = 0;
    int before = -1;
    for (const CountedRange& counted : all) {
      if (counted.begin > next) break;
      if (counted.begin < next) {
        Find(before == counted.rank ? std::vector<int>{before}
                                    : std::vector<int>{before, counted.rank},
             "elements %d to %d of %s are counted in the norm more than once",
             counted.begin, std::min(next, counted.end), parameter.name);
        return;
      }
      next = counted.end;
      before = counted.rank;
    }
    if (next == ElementsOf(parameter)) return;
    const auto behind = std::find_if(
        all.begin(), all.end(),
        [next](const CountedRange& counted) { return counted.begin > next; });
    Find({}, "elements %d to %d of %s are counted in the norm by no rank", next,
         behind == all.end() ? ElementsOf(parameter) : behind->begin,
         parameter.name);
  }

  const Plan& plan_;
  const CommunicatorMembers roster_;
  const Pipelines pipelines_;
  const std::set<std::string> shared_;
  Diagnostics& diagnostics_;
  std::vector<std::vector<CountedRange>> counted_;  // of each parameter
  std::vector<int> counted_of_;                     // the first of its replicas
};

}  // namespace

void CheckNorms(const Plan& plan, Diagnostics& diagnostics) {
  NormCheck(plan, diagnostics).Run();
}

}  // namespace lockstep::plan

#include "plan/bucket_transfers.h"

#include <utility>

#include "plan/norm_ranges.h"
#include "plan/shard.h"
#include "plan/summary.h"

namespace lockstep::plan {
namespace {

constexpr int kVerdictGroup = 1;

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

class BucketOnRank {
 public:
  BucketOnRank(const Plan& plan, int index, int position,
               const std::vector<bool>& counted)
      : plan_(plan),
        index_(index),
        bucket_(plan.buckets[index]),
        position_(position),
        counted_(counted),
        ranks_(static_cast<int>(
            plan.communicators[bucket_.communicator].ranks.size())) {}

  std::vector<Transfer> Whole() const {
    Transfer reduction = Reduction();
    AddCastOut(All(), &reduction.before);
    reduction.before.push_back(WriteFlags());
    AddCastBack(All(), &reduction.then);
    reduction.then.push_back(ReadFlags());
    AddNorms(&reduction.then);
    return {std::move(reduction)};
  }

  std::vector<Transfer> Sharded() const {
    Transfer scatter = Reduction();
    scatter.kind = TransferKind::kReduceScatter;
    scatter.shape = {bucket_.flags_offset};
    scatter.group = Group();
    AddCastOut(All(), &scatter.before);
    AddCastBack(Mine(), &scatter.then);
    AddNorms(&scatter.then);
    return {std::move(scatter), FlagsAlone()};
  }

  std::vector<Transfer> ExchangedLeaves() const {
    Transfer exchange = Reduction();
    exchange.kind = TransferKind::kAllToAll;
    exchange.dtype = SumTypeOf(bucket_);
    exchange.shape = {bucket_.flags_offset};
    exchange.op = ReduceOp::kSum;
    LocalOp sum = Over(LocalKind::kSumPairs, Mine());
    sum.from = SumTypeOf(bucket_);
    sum.to = bucket_.dtype;
    sum.divisor = LeafDivisor();
    exchange.then.push_back(sum);
    Transfer gather = Reduction();
    gather.kind = TransferKind::kAllGather;
    gather.shape = {Mine().count};
    gather.op = ReduceOp::kSum;
    gather.group = Group();
    AddCastOut(Mine(), &gather.before);
    AddCastBack(All(), &gather.then);
    AddNormsOfLeaves(&gather.then);
    return {std::move(exchange), std::move(gather), FlagsAlone()};
  }

  std::vector<Transfer> LeavesInPairs() const {
    Transfer sum = Reduction();
    sum.kind = TransferKind::kAllReducePairs;
    sum.dtype = SumTypeOf(bucket_);
    sum.op = ReduceOp::kSum;
    sum.divisor = LeafDivisor();
    sum.before.push_back(WriteFlags());
    if (sum.dtype != bucket_.dtype) {
      sum.then.push_back(Cast(sum.dtype, bucket_.dtype, All()));
    }
    sum.then.push_back(ReadFlags());
    AddNormsOfLeaves(&sum.then);
    return {std::move(sum)};
  }

  std::vector<Transfer> Announced() const {
    const bool rescales = bucket_.op == ReduceOp::kMean && !bucket_.wire;
    const bool sums_wide = rescales && IsHalf(bucket_.dtype);
    Transfer reduction = Reduction();
    if (rescales) reduction.op = ReduceOp::kSum;
    const LocalOp rescale = Over(LocalKind::kRescale, All());

    reduction.before.push_back(Over(LocalKind::kZeroUnlessGiven, All()));
    if (sums_wide) {
      reduction.dtype = DType::kF32;
      reduction.before.push_back(Cast(bucket_.dtype, DType::kF32, All()));
      reduction.then.push_back(rescale);
      reduction.then.push_back(Cast(DType::kF32, bucket_.dtype, All()));
    } else {
      AddCastOut(All(), &reduction.before);
      AddCastBack(All(), &reduction.then);
    }
    reduction.before.push_back(WriteFlags());
    reduction.then.push_back(ReadFlags());
    if (rescales && !sums_wide) reduction.then.push_back(rescale);
    AddNorms(&reduction.then);
    reduction.then.push_back(Over(LocalKind::kZeroUnlessGiven, All()));
    return {std::move(reduction)};
  }

 private:
  // The all-reduce of a whole bucket.
  Transfer Reduction() const {
    return {.kind = TransferKind::kAllReduce,
            .communicator = bucket_.communicator,
            .dtype = WireOf(bucket_),
            .shape = {bucket_.total},
            .op = bucket_.op,
            .bucket = index_};
  }

  // The all-reduce of the flags only, in one group with the slices.
  Transfer FlagsAlone() const {
    Transfer flags = Reduction();
    flags.shape = {static_cast<int64_t>(bucket_.slots.size())};
    flags.group = Group();
    flags.before.push_back(WriteFlags());
    flags.then.push_back(ReadFlags());
    return flags;
  }

  int Group() const { return index_ + 1; }
  int LeafDivisor() const {
    return bucket_.op == ReduceOp::kMean ? bucket_.leaves : 1;
  }

  Slice All() const { return {.offset = 0, .count = bucket_.flags_offset}; }
  Slice Mine() const { return SliceOf(bucket_, ranks_, position_); }

  static LocalOp Over(LocalKind kind, const Slice& slice) {
    return {.kind = kind, .offset = slice.offset, .count = slice.count};
  }
  static LocalOp Cast(DType from, DType to, const Slice& slice) {
    LocalOp cast = Over(LocalKind::kCast, slice);
    cast.from = from;
    cast.to = to;
    return cast;
  }
  LocalOp OverFlags(LocalKind kind) const {
    return Over(kind, {.offset = bucket_.flags_offset,
                       .count = static_cast<int64_t>(bucket_.slots.size())});
  }
  LocalOp WriteFlags() const { return OverFlags(LocalKind::kWriteFlags); }
  LocalOp ReadFlags() const { return OverFlags(LocalKind::kReadFlags); }

  void AddCastOut(const Slice& slice, std::vector<LocalOp>* ops) const {
    if (!bucket_.wire) return;
    LocalOp cast = Cast(bucket_.dtype, *bucket_.wire, slice);
    if (bucket_.error_feedback) cast.kind = LocalKind::kCastFeedback;
    ops->push_back(cast);
  }
  void AddCastBack(const Slice& slice, std::vector<LocalOp>* ops) const {
    if (bucket_.wire) {
      ops->push_back(Cast(*bucket_.wire, bucket_.dtype, slice));
    }
  }

  void AddNorms(std::vector<LocalOp>* ops) const {
    for (const Slice& range : NormRanges(plan_, bucket_, position_, counted_)) {
      ops->push_back(Over(LocalKind::kNorm, range));
    }
  }
  void AddNormsOfLeaves(std::vector<LocalOp>* ops) const {
    for (const LeafNormRanges& of_leaf :
         NormRangesOfLeaves(plan_, bucket_, position_, counted_)) {
      for (const Slice& range : of_leaf.ranges) {
        ops->push_back(Over(LocalKind::kNorm, range));
        ops->back().leaf = of_leaf.leaf;
      }
    }
  }

  const Plan& plan_;
  const int index_;
  const Bucket& bucket_;
  const int position_;
  const std::vector<bool>& counted_;
  const int ranks_;
};

Transfer OverWorld(DType dtype, int64_t count, ReduceOp op) {
  return {.kind = TransferKind::kAllReduce,
          .communicator = 0,
          .dtype = dtype,
          .shape = {count},
          .op = op,
          .group = kVerdictGroup};
}

}  // namespace

std::vector<Transfer> BucketTransfers(const Plan& plan, int bucket,
                                      int position, bool sums_in_pairs,
                                      const std::vector<bool>& counted) {
  const BucketOnRank on_rank(plan, bucket, position, counted);
  const Bucket& of = plan.buckets[bucket];
  if (of.leaves > 0) {
    return sums_in_pairs ? on_rank.LeavesInPairs() : on_rank.ExchangedLeaves();
  }
  if (of.sharded) return on_rank.Sharded();
  return of.announced ? on_rank.Announced() : on_rank.Whole();
}

std::vector<Transfer> VerdictTransfers(const Plan& plan, bool by_records) {
  if (by_records) {
    return {{.kind = TransferKind::kAllGather,
             .communicator = 0,
             .dtype = DType::kU64,
             .shape = {kRecordWords},
             .before = {{.kind = LocalKind::kWriteSummary}},
             .then = {{.kind = LocalKind::kReadSummary}}}};
  }
  std::vector<Transfer> transfers = {
      OverWorld(DType::kF64, kSummarySums, ReduceOp::kSum),
      OverWorld(DType::kU64, kSummaryMaxima, ReduceOp::kMax)};
  const int leaves = plan.buckets.empty() ? 0 : plan.buckets[0].leaves;
  if (leaves > 0) {
    transfers.push_back(OverWorld(DType::kF64, leaves, ReduceOp::kSum));
  }
  transfers.front().before.push_back({.kind = LocalKind::kWriteSummary});
  transfers.back().then.push_back({.kind = LocalKind::kReadSummary});
  return transfers;
}

}  // namespace lockstep::plan

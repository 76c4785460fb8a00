#include "plan/bucket.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

constexpr int kNoBucket = -1;

int64_t EndOf(const Bucket& bucket) {
  return bucket.slots.back().offset + bucket.slots.back().count;
}

void Append(Bucket& bucket, int parameter, int64_t count) {
  const int64_t offset =
      bucket.slots.empty() ? 0 : AlignedOffset(EndOf(bucket), bucket.dtype);
  bucket.slots.push_back(
      {.parameter = parameter, .offset = offset, .count = count});
}

void PlaceFlags(Bucket& bucket) {
  bucket.flags_offset = AlignedOffset(EndOf(bucket), bucket.dtype);
  bucket.total =
      bucket.flags_offset + static_cast<int64_t>(bucket.slots.size());
}

// The buckets so far, and the open bucket of each rank.
class Cutter {
 public:
  Cutter(const std::vector<CommunicatorSpec>& communicators,
         const BucketPolicy& policy)
      : communicators_(communicators), policy_(policy) {
    int world = 0;
    for (const CommunicatorSpec& communicator : communicators) {
      for (const int rank : communicator.ranks) {
        world = std::max(world, rank + 1);
      }
    }
    open_on_rank_.assign(world, kNoBucket);
  }

  void Place(int index, const Parameter& parameter, int communicator) {
    const int64_t count = ElementsOf(parameter);
    int bucket = OpenOn(communicator);
    if (bucket == kNoBucket || !Takes(bucket, parameter, count)) {
      bucket = Open(parameter, communicator);
    }
    Append(buckets_[bucket], index, count);
  }

  std::vector<Bucket> Finish() {
    for (Bucket& bucket : buckets_) PlaceFlags(bucket);
    return std::move(buckets_);
  }

 private:
  // The communicator's bucket, if it is still open on every member.
  int OpenOn(int communicator) const {
    const std::vector<int>& ranks = communicators_[communicator].ranks;
    const int bucket = open_on_rank_[ranks[0]];
    if (bucket == kNoBucket || buckets_[bucket].communicator != communicator) {
      return kNoBucket;
    }
    const bool everywhere =
        std::all_of(ranks.begin(), ranks.end(),
                    [&](int rank) { return open_on_rank_[rank] == bucket; });
    return everywhere ? bucket : kNoBucket;
  }

  bool Takes(int index, const Parameter& parameter, int64_t count) const {
    const Bucket& bucket = buckets_[index];
    if (bucket.dtype != parameter.dtype || bucket.op != parameter.op ||
        stage_[index] != parameter.stage) {
      return false;
    }
    const int64_t end = AlignedOffset(EndOf(bucket), bucket.dtype) + count;
    return end * static_cast<int64_t>(SizeOf(WireOf(bucket))) <= bound_[index];
  }

  // A dtype that is no longer than the wire's is sent uncast.
  std::optional<DType> WireFor(DType dtype) const {
    const bool casts =
        policy_.wire_dtype && SizeOf(dtype) > SizeOf(*policy_.wire_dtype);
    return casts ? policy_.wire_dtype : std::nullopt;
  }

  int Open(const Parameter& parameter, int communicator) {
    const std::vector<int>& ranks = communicators_[communicator].ranks;
    const bool first = std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
      return open_on_rank_[rank] == kNoBucket;
    });
    const int bucket = static_cast<int>(buckets_.size());
    const std::optional<DType> wire = WireFor(parameter.dtype);
    buckets_.push_back(
        {.communicator = communicator,
         .dtype = parameter.dtype,
         .op = parameter.op,
         .wire = wire,
         .error_feedback = policy_.error_feedback && wire.has_value()});
    stage_.push_back(parameter.stage);
    bound_.push_back(first ? policy_.first_bytes_max : policy_.bytes_max);
    for (const int rank : ranks) open_on_rank_[rank] = bucket;
    return bucket;
  }

  const std::vector<CommunicatorSpec>& communicators_;
  const BucketPolicy& policy_;
  std::vector<Bucket> buckets_;
  std::vector<int64_t> bound_;     // of each bucket, bytes
  std::vector<int> stage_;         // of each bucket
  std::vector<int> open_on_rank_;  // the newest bucket of each rank
};

}  // namespace

int64_t AlignedOffset(int64_t offset, DType dtype) {
  const int64_t step =
      kSlotAlignmentBytes / static_cast<int64_t>(SizeOf(dtype));
  return (offset + step - 1) / step * step;
}

std::vector<Bucket> CutBuckets(
    const std::vector<Parameter>& parameters,
    const std::vector<CommunicatorSpec>& communicators,
    const std::vector<int>& communicator_of, const std::vector<int>& order,
    const BucketPolicy& policy) {
  Cutter cutter(communicators, policy);
  for (const int index : order) {
    cutter.Place(index, parameters[index], communicator_of[index]);
  }
  return cutter.Finish();
}

}  // namespace lockstep::plan

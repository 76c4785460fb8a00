// Checks the tables that all ranks of a plan share.

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/text/utf8.h"
#include "lockstep/job_options.h"
#include "plan/bucket.h"
#include "plan/shard.h"
#include "plan/verify/structure.h"
#include "plan/verify/verify.h"

namespace lockstep::plan {
namespace {

constexpr int kUnknown = -1;

bool InRange(int64_t index, size_t size) {
  return index >= 0 && static_cast<uint64_t>(index) < size;
}

// --- World and communicators ------------------------------------------------

void CheckWorld(const Plan& plan, Diagnostics& diagnostics) {
  if (absl::Status mesh = Validate(plan.mesh); !mesh.ok()) {
    diagnostics.Add(Rule::kWorld, {}, std::string(mesh.message()));
    return;
  }
  if (plan.ranks.size() != static_cast<size_t>(plan.mesh.WorldSize())) {
    diagnostics.Add(Rule::kWorld, {},
                    absl::StrFormat("mesh %s has %d ranks, the plan has %d",
                                    ToString(plan.mesh), plan.mesh.WorldSize(),
                                    plan.ranks.size()));
  }
  if (plan.revision.value < 1 || plan.revision.value > kRevisionMax) {
    diagnostics.Add(Rule::kWorld, {},
                    absl::StrFormat("the revision is %d: revisions are 1 to %d",
                                    plan.revision.value, kRevisionMax));
  }
}

void CheckMembers(const CommunicatorSpec& communicator, size_t world,
                  Diagnostics& diagnostics) {
  if (communicator.ranks.empty()) {
    diagnostics.Add(
        Rule::kCommunicators, {},
        absl::StrFormat("communicator %s has no members", communicator.name));
  }
  std::set<int> seen;
  for (const int rank : communicator.ranks) {
    if (!InRange(rank, world)) {
      diagnostics.Add(Rule::kCommunicators, {},
                      absl::StrFormat("communicator %s has rank %d, the world "
                                      "has %d",
                                      communicator.name, rank, world));
    } else if (!seen.insert(rank).second) {
      diagnostics.Add(
          Rule::kCommunicators, {rank},
          absl::StrFormat("is in communicator %s twice", communicator.name));
    }
  }
}

bool IsWorld(const CommunicatorSpec& communicator, size_t world) {
  if (communicator.ranks.size() != world) return false;
  for (size_t i = 0; i < world; ++i) {
    if (communicator.ranks[i] != static_cast<int>(i)) return false;
  }
  return true;
}

void CheckCommunicators(const Plan& plan, Diagnostics& diagnostics) {
  const size_t world = plan.ranks.size();
  if (plan.communicators.empty() || !IsWorld(plan.communicators[0], world)) {
    diagnostics.Add(
        Rule::kCommunicators, {},
        "communicator 0 is not the world in the order of its ranks");
  }
  std::set<std::string> names;
  for (const CommunicatorSpec& communicator : plan.communicators) {
    if (communicator.name.empty() || !IsPrintableUtf8(communicator.name) ||
        !names.insert(communicator.name).second) {
      diagnostics.Add(
          Rule::kCommunicators, {},
          absl::StrFormat("communicator name \"%s\" is empty, repeated or "
                          "not printable",
                          absl::CEscape(communicator.name)));
    }
    CheckMembers(communicator, world, diagnostics);
  }
}

// --- Parameters and buckets -------------------------------------------------

void CheckParameters(const Plan& plan, Diagnostics& diagnostics) {
  for (const Parameter& parameter : plan.parameters) {
    const absl::Status valid = Validate(parameter, plan.mesh);
    if (!valid.ok()) {
      diagnostics.Add(Rule::kParameters, {}, std::string(valid.message()));
    }
  }
}

class BucketCheck {
 public:
  BucketCheck(const Plan& plan, Diagnostics& diagnostics)
      : plan_(plan),
        diagnostics_(diagnostics),
        bucket_of_(plan.parameters.size(), kUnknown) {}

  void Run() {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      index_ = static_cast<int>(i);
      CheckBucket(plan_.buckets[i]);
    }
    if (!diagnostics_.empty()) return;
    CheckEveryParameterHasABucket();
    if (!diagnostics_.empty()) return;
    CheckNamesOnEachRank();
  }

 private:
  template <typename... Args>
  void Find(const absl::FormatSpec<Args...>& format, const Args&... args) {
    diagnostics_.Add(Rule::kBuckets, {},
                     absl::StrFormat("bucket %d ", index_) +
                         absl::StrFormat(format, args...));
  }

  void CheckBucket(const Bucket& bucket) {
    if (!InRange(bucket.communicator, plan_.communicators.size())) {
      return Find("names communicator %d of %d", bucket.communicator,
                  plan_.communicators.size());
    }
    if (!IsFloat(bucket.dtype)) return Find("holds no floating point");
    if (bucket.slots.empty()) return Find("is empty");
    int64_t end = 0;
    for (const Slot& slot : bucket.slots) {
      if (!CheckSlot(bucket, slot, end)) return;
      end = slot.offset + slot.count;
    }
    CheckFlags(bucket, end);
    CheckWire(bucket);
    CheckSlices(bucket);
    CheckAnnounced(bucket);
    CheckGroups(bucket);
  }

  // The leaves of a rank form a subtree.
  void CheckLeaves(const Bucket& bucket, int64_t ranks) {
    if (bucket.sharded || bucket.wire) {
      Find("has leaves, and is sharded or cast as well");
    }
    const bool are_a_tree = bucket.leaves > 0 &&
                            bucket.leaves <= ReproducibleSpec::kLeavesMax &&
                            std::has_single_bit(unsigned(bucket.leaves));
    if (!are_a_tree || !std::has_single_bit(static_cast<uint64_t>(ranks)) ||
        bucket.leaves % ranks != 0) {
      Find("has %d leaves for %d ranks: both must be powers of two, up to %d",
           bucket.leaves, ranks, ReproducibleSpec::kLeavesMax);
    }
    const auto first =
        std::find_if(plan_.buckets.begin(), plan_.buckets.end(),
                     [](const Bucket& other) { return other.leaves != 0; });
    if (bucket.leaves != first->leaves) {
      Find("has %d leaves, and bucket %d has %d: the norm has one sum for each",
           bucket.leaves, first - plan_.buckets.begin(), first->leaves);
    }
  }

  void CheckSlices(const Bucket& bucket) {
    if (!HasSlices(bucket) && bucket.leaves == 0) return;
    const int64_t ranks = static_cast<int64_t>(
        plan_.communicators[bucket.communicator].ranks.size());
    const int64_t slice = bucket.flags_offset / ranks;
    if (slice * ranks != bucket.flags_offset ||
        slice != AlignedOffset(slice, bucket.dtype)) {
      Find("has %d elements, which make no aligned slices for %d ranks",
           bucket.flags_offset, ranks);
    }
    if (bucket.leaves != 0) CheckLeaves(bucket, ranks);
  }

  // A rank announces one gradient at a time, and may announce none of a bucket.
  void CheckAnnounced(const Bucket& bucket) {
    if (!bucket.announced) return;
    if (bucket.slots.size() > 1) {
      Find("is announced, and has %d parameters", bucket.slots.size());
    }
    if (bucket.leaves != 0) Find("is announced, and has leaves");
    if (bucket.sharded) Find("is announced, and is sharded");
    if (bucket.error_feedback) {
      Find("is announced, and feeds back the errors of its cast");
    }
  }

  void CheckWire(const Bucket& bucket) {
    if (!bucket.wire) {
      if (bucket.error_feedback) Find("feeds back the errors of no cast");
      return;
    }
    const bool is_half =
        *bucket.wire == DType::kF16 || *bucket.wire == DType::kBF16;
    if (!is_half || SizeOf(*bucket.wire) >= SizeOf(bucket.dtype)) {
      Find("is sent as %s, which is no half shorter than its %s",
           Name(*bucket.wire), Name(bucket.dtype));
    }
  }

  bool CheckSlot(const Bucket& bucket, const Slot& slot, int64_t end) {
    if (!InRange(slot.parameter, plan_.parameters.size())) {
      Find("names parameter %d of %d", slot.parameter, plan_.parameters.size());
      return false;
    }
    const Parameter& parameter = plan_.parameters[slot.parameter];
    if (slot.offset < end || slot.offset > kParameterBytesMax ||
        slot.offset != AlignedOffset(slot.offset, bucket.dtype)) {
      Find("has %s at element %d: not aligned, or not behind element %d",
           parameter.name, slot.offset, end);
      return false;
    }
    if (slot.count != ElementsOf(parameter)) {
      Find("has %d elements of %s, which has %d", slot.count, parameter.name,
           ElementsOf(parameter));
      return false;
    }
    CheckKind(bucket, parameter);
    CheckFirstPlace(slot.parameter);
    return true;
  }

  void CheckKind(const Bucket& bucket, const Parameter& parameter) {
    if (bucket.dtype != parameter.dtype || bucket.op != parameter.op) {
      Find("is %s %s, but %s is %s", Name(bucket.dtype), Name(bucket.op),
           parameter.name, Describe(parameter));
    }
  }

  void CheckFirstPlace(int parameter) {
    if (bucket_of_[parameter] != kUnknown) {
      Find("has %s, which is in bucket %d as well",
           plan_.parameters[parameter].name, bucket_of_[parameter]);
    }
    bucket_of_[parameter] = index_;
  }

  void CheckFlags(const Bucket& bucket, int64_t end) {
    const int64_t slots = static_cast<int64_t>(bucket.slots.size());
    if (bucket.flags_offset < end ||
        bucket.flags_offset > 2 * kParameterBytesMax ||
        bucket.flags_offset !=
            AlignedOffset(bucket.flags_offset, bucket.dtype)) {
      Find("has its flags at element %d: not aligned, or not behind element %d",
           bucket.flags_offset, end);
    } else if (bucket.total != bucket.flags_offset + slots) {
      Find("has %d elements, its %d flags end at %d", bucket.total, slots,
           bucket.flags_offset + slots);
    }
  }

  // The ranks of the communicator are those that differ only in the axes of
  // each parameter. Adjacent parameters often have equal axes, which are
  // checked once.
  void CheckGroups(const Bucket& bucket) {
    const std::vector<std::string>* judged = nullptr;
    for (const Slot& slot : bucket.slots) {
      const Parameter& parameter = plan_.parameters[slot.parameter];
      if (judged != nullptr && *judged == parameter.axes) continue;
      judged = &parameter.axes;
      if (!IsGroup(bucket.communicator, parameter.axes)) {
        Find("is sent over communicator %s, which is no group of %s: %s",
             plan_.communicators[bucket.communicator].name, parameter.name,
             Describe(parameter));
      }
    }
  }

  bool IsGroup(int communicator, const std::vector<std::string>& axes) {
    const auto [known, is_new] =
        is_group_.try_emplace({communicator, axes}, false);
    if (is_new) {
      std::vector<int> ranks = plan_.communicators[communicator].ranks;
      std::vector<int> group = axes.empty()
                                   ? plan_.communicators[0].ranks
                                   : plan_.mesh.GroupOf(ranks[0], axes);
      std::sort(ranks.begin(), ranks.end());
      std::sort(group.begin(), group.end());
      known->second = ranks == group;
    }
    return known->second;
  }

  void CheckEveryParameterHasABucket() {
    for (size_t i = 0; i < bucket_of_.size(); ++i) {
      if (bucket_of_[i] != kUnknown) continue;
      diagnostics_.Add(Rule::kBuckets, {},
                       absl::StrFormat("parameter %s is in no bucket",
                                       plan_.parameters[i].name));
    }
  }

  // Parameters of one name are on disjoint communicators.
  void CheckNamesOnEachRank() {
    absl::flat_hash_map<absl::string_view, std::vector<int>> communicators_of;
    for (size_t i = 0; i < plan_.parameters.size(); ++i) {
      communicators_of[plan_.parameters[i].name].push_back(
          plan_.buckets[bucket_of_[i]].communicator);
    }
    for (const Parameter& parameter : plan_.parameters) {
      const auto found = communicators_of.find(parameter.name);
      if (found == communicators_of.end()) continue;
      const int rank = CommonRank(found->second);
      if (rank != kUnknown) {
        diagnostics_.Add(
            Rule::kParameters, {rank},
            absl::StrFormat("holds two parameters called %s", parameter.name));
      }
      communicators_of.erase(found);
    }
  }

  // A rank that two of the communicators share, or -1.
  int CommonRank(const std::vector<int>& communicators) {
    const auto [known, is_new] =
        common_rank_.try_emplace(communicators, kUnknown);
    if (!is_new || communicators.size() == 1) return known->second;
    std::set<int> seen;
    for (const int communicator : communicators) {
      for (const int rank : plan_.communicators[communicator].ranks) {
        if (!seen.insert(rank).second) return known->second = rank;
      }
    }
    return kUnknown;
  }

  const Plan& plan_;
  Diagnostics& diagnostics_;
  std::vector<int> bucket_of_;  // of each parameter
  int index_ = 0;               // of the bucket being checked
  // Cached answers, shared by many buckets and parameters.
  std::map<std::pair<int, std::vector<std::string>>, bool> is_group_;
  std::map<std::vector<int>, int> common_rank_;
};

}  // namespace

void CheckTables(const Plan& plan, Diagnostics& diagnostics) {
  CheckWorld(plan, diagnostics);
  if (!diagnostics.empty()) return;
  CheckCommunicators(plan, diagnostics);
  CheckParameters(plan, diagnostics);
  if (!diagnostics.empty()) return;
  BucketCheck(plan, diagnostics).Run();
}

}  // namespace lockstep::plan

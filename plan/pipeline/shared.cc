#include "plan/pipeline/shared.h"

#include "absl/strings/str_format.h"

namespace lockstep::plan {

SharedParameters::SharedParameters(const Plan& plan)
    : plan_(plan), places_(plan.pipeline.shared.size()) {
  const std::vector<std::string>& names = plan.pipeline.shared;
  if (names.empty()) return;
  for (size_t i = 0; i < names.size(); ++i) {
    index_[names[i]] = static_cast<int>(i);
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    for (const Slot& slot : bucket.slots) {
      const auto found = index_.find(plan.parameters[slot.parameter].name);
      if (found == index_.end()) continue;
      for (const int rank : plan.communicators[bucket.communicator].ranks) {
        places_[found->second][rank] = {static_cast<int>(b), slot.parameter};
      }
    }
  }
}

absl::Status SharedParameters::Check(
    const std::vector<std::pair<int, int>>& ends) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    for (const auto& [first, last] : ends) {
      for (const int rank : {first, last}) {
        if (places_[i].contains(rank)) continue;
        return absl::InvalidArgumentError(absl::StrFormat(
            "pipeline.shared names %s, which rank %d, that has the first or "
            "the last stage, did not register",
            plan_.pipeline.shared[i], rank));
      }
      const Parameter& a = On(i, first);
      const Parameter& b = On(i, last);
      if (a.shape == b.shape && a.dtype == b.dtype) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "pipeline.shared names %s, which is %s on rank %d and %s on rank %d",
          a.name, Describe(a), first, Describe(b), last));
    }
  }
  return absl::OkStatus();
}

bool SharedParameters::AnyIn(const Bucket& bucket) const {
  if (index_.empty()) return false;
  for (const Slot& slot : bucket.slots) {
    if (index_.contains(plan_.parameters[slot.parameter].name)) return true;
  }
  return false;
}

}  // namespace lockstep::plan

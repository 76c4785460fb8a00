#include "server/core/pass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::core {

PassGroups::PassGroups(const plan::Plan& plan)
    : world_size(plan.mesh.WorldSize()),
      of_parameter(plan.parameters.size(), -1),
      of_rank(world_size) {
  std::vector<int> group_of(plan.communicators.size(), -1);
  for (const plan::Bucket& bucket : plan.buckets) {
    int& group = group_of[bucket.communicator];
    if (group < 0) {
      group = static_cast<int>(groups.size());
      groups.push_back({plan.communicators[bucket.communicator].ranks, {}});
      is_member.emplace_back(world_size);
      for (const int rank : groups.back().ranks) {
        is_member.back()[rank] = true;
        of_rank[rank].push_back(group);
      }
    }
    for (const plan::Slot& slot : bucket.slots) {
      of_parameter[slot.parameter] = group;
      groups[group].parameters.push_back(slot.parameter);
    }
  }
  for (const Parameter& parameter : plan.parameters) {
    names.push_back(parameter.name);
  }
}

Pass::Pass(std::shared_ptr<const PassGroups> groups, uint64_t number)
    : groups_(std::move(groups)),
      number_(number),
      ranks_(groups_->world_size),
      counts_(groups_->parameters()),
      silent_(groups_->world_size) {
  for (const PassGroups::Group& group : groups_->groups) {
    silent_of_group_.push_back(static_cast<int>(group.ranks.size()));
  }
}

// --- Announcing -------------------------------------------------------------

absl::StatusOr<std::vector<uint32_t>> Pass::Announce(
    int rank, const std::vector<uint32_t>& parameters) {
  if (absl::Status s = CheckAnnounced(rank, parameters); !s.ok()) return s;
  Rank& of = ranks_[rank];
  std::vector<uint32_t> may_be_ready;
  if (std::exchange(of.announced, true)) return may_be_ready;
  if (!parameters.empty()) {
    of.gives.assign(groups_->parameters(), false);
    of.submitted.assign(groups_->parameters(), false);
  }
  for (const uint32_t parameter : parameters) {
    of.gives[parameter] = true;
    Counts& counts = counts_[parameter];
    if (counts.announcers == 0 && !counts.decided) ++undecided_;
    ++counts.announcers;
    ++counts.awaited;
  }
  of.awaited = parameters.size();
  --silent_;
  for (const int group : groups_->of_rank[rank]) {
    if (--silent_of_group_[group] > 0) continue;
    const std::vector<uint32_t>& all = groups_->groups[group].parameters;
    may_be_ready.insert(may_be_ready.end(), all.begin(), all.end());
  }
  return may_be_ready;
}

absl::Status Pass::CheckNamed(const char* did, uint32_t parameter) const {
  if (parameter < groups_->parameters()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s parameter %d in pass %d, but there are %d", did,
                      parameter, number_, groups_->parameters()));
}

absl::Status Pass::CheckAnnounced(
    int rank, const std::vector<uint32_t>& parameters) const {
  std::vector<bool> gives(parameters.empty() ? 0 : groups_->parameters());
  for (const uint32_t parameter : parameters) {
    absl::Status named = CheckNamed("announced", parameter);
    if (!named.ok()) return named;
    const std::string& name = groups_->names[parameter];
    if (!groups_->Has(rank, parameter)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "announced %s in pass %d, but is not of its group", name, number_));
    }
    if (gives[parameter]) {
      return absl::InvalidArgumentError(
          absl::StrFormat("announced %s twice in pass %d", name, number_));
    }
    gives[parameter] = true;
  }
  const Rank& before = ranks_[rank];
  if (!before.announced || before.gives == gives) return absl::OkStatus();
  for (uint32_t p = 0; p < groups_->parameters(); ++p) {
    const bool gave = !before.gives.empty() && before.gives[p];
    const bool gives_now = !gives.empty() && gives[p];
    if (gave == gives_now) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "announced pass %d a second time, %s %s", number_,
        gives_now ? "now with" : "now without", groups_->names[p]));
  }
  return absl::OkStatus();
}

// --- Submitting and deciding ------------------------------------------------

absl::Status Pass::Submit(int rank, const std::vector<uint32_t>& parameters) {
  Rank& of = ranks_[rank];
  for (const uint32_t parameter : parameters) {
    absl::Status named = CheckNamed("submitted", parameter);
    if (!named.ok()) return named;
    if (of.gives.empty() || !of.gives[parameter]) {
      return absl::InvalidArgumentError(
          absl::StrFormat("submitted %s in pass %d without announcing it",
                          groups_->names[parameter], number_));
    }
    if (of.submitted[parameter]) continue;
    of.submitted[parameter] = true;
    --of.awaited;
    --counts_[parameter].awaited;
  }
  return absl::OkStatus();
}

bool Pass::Ready(uint32_t parameter) const {
  const Counts& counts = counts_[parameter];
  return counts.announcers > 0 && counts.awaited == 0 && !counts.decided &&
         silent_of_group_[groups_->of_parameter[parameter]] == 0;
}

void Pass::Decide(uint32_t parameter) {
  Counts& counts = counts_[parameter];
  if (std::exchange(counts.decided, true)) return;
  if (counts.announcers > 0) --undecided_;
}

std::vector<std::string> Pass::AwaitedNames(int rank, size_t max) const {
  const Rank& of = ranks_[rank];
  std::vector<std::string> names;
  for (size_t p = 0; p < of.gives.size() && names.size() < max; ++p) {
    if (of.gives[p] && !of.submitted[p]) names.push_back(groups_->names[p]);
  }
  return names;
}

}  // namespace lockstep::core

#include "plan/state/recovery.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "base/text/utf8.h"
#include "plan/state/ranges.h"

namespace lockstep::plan {
namespace {

constexpr size_t kNamedMax = 16;  // tensors in a message

enum class RecoveryRole : uint8_t { kNone, kHealthy, kNewcomer };

absl::StatusOr<std::vector<RecoveryRole>> RolesOf(
    const Mesh& mesh, const std::vector<int>& newcomers,
    const std::vector<int>& healthy) {
  std::vector<RecoveryRole> roles(static_cast<size_t>(mesh.WorldSize()));
  for (const RecoveryRole role :
       {RecoveryRole::kNewcomer, RecoveryRole::kHealthy}) {
    for (const int rank :
         role == RecoveryRole::kNewcomer ? newcomers : healthy) {
      if (rank < 0 || rank >= mesh.WorldSize()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "recovery: rank ", rank, " is not in mesh ", ToString(mesh)));
      }
      RecoveryRole& known = roles[static_cast<size_t>(rank)];
      if (known != RecoveryRole::kNone) {
        return absl::InvalidArgumentError(absl::StrCat(
            "recovery: rank ", rank,
            known == role ? " is listed twice" : " is a newcomer and healthy"));
      }
      known = role;
    }
  }
  return roles;
}

// What a newcomer needs of a range.
struct Need {
  int newcomer = 0;
  int tensor = 0;
  int64_t offset = 0;
  int64_t count = 0;
  int holders_of = 0;
};

class Planner {
 public:
  Planner(const std::vector<StateTensor>& tensors, const Mesh& mesh,
          std::vector<RecoveryRole> roles)
      : tensors_(tensors), roles_(std::move(roles)), loads_(roles_.size()) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      for (const HeldRange& range : RangesOf(tensors_[t], mesh)) {
        AddNeeds(static_cast<int>(t), range);
      }
    }
    std::stable_sort(
        needs_.begin(), needs_.end(),
        [](const Need& a, const Need& b) { return a.newcomer < b.newcomer; });
  }

  absl::Status Recoverable() const {
    if (lost_.empty()) return absl::OkStatus();
    std::vector<std::string> texts;
    for (const auto& [tensor, ranks] : lost_) {
      if (texts.size() == kNamedMax) {
        texts.push_back(absl::StrCat(lost_.size() - kNamedMax, " more"));
        break;
      }
      texts.push_back(absl::StrCat(
          "tensor \"", Printable(tensors_[static_cast<size_t>(tensor)].name),
          "\" of ", RankList({ranks.begin(), ranks.end()})));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("no healthy rank holds ", absl::StrJoin(texts, ", "),
                     ": the job needs a checkpoint"));
  }

  RecoveryPlan Divide(int64_t chunk_bytes) {
    RecoveryPlan plan;
    for (const Need& need : needs_) {
      const int64_t most =
          std::max<int64_t>(1, chunk_bytes / ElementBytes(need.tensor));
      for (int64_t done = 0; done < need.count; done += most) {
        plan.chunks.push_back({.tensor = need.tensor,
                               .offset = need.offset + done,
                               .count = std::min(most, need.count - done),
                               .to = need.newcomer,
                               .holders_of = need.holders_of});
      }
    }
    AssignSenders(&plan.chunks);
    plan.holders = std::move(holders_);
    return plan;
  }

 private:
  RecoveryRole RoleOf(int rank) const {
    return roles_[static_cast<size_t>(rank)];
  }

  void AddNeeds(int tensor, const HeldRange& range) {
    std::vector<int> holders, newcomers;
    for (const int rank : range.ranks) {
      if (RoleOf(rank) == RecoveryRole::kHealthy) holders.push_back(rank);
      if (RoleOf(rank) == RecoveryRole::kNewcomer) newcomers.push_back(rank);
    }
    if (newcomers.empty()) return;
    if (holders.empty()) {
      lost_[tensor].insert(newcomers.begin(), newcomers.end());
      return;
    }
    const auto [known, is_new] =
        numbers_.emplace(holders, static_cast<int>(holders_.size()));
    if (is_new) holders_.push_back(std::move(holders));
    for (const int newcomer : newcomers) {
      needs_.push_back(
          {newcomer, tensor, range.offset, range.count, known->second});
    }
  }

  // Chunks of few holders first: those of many can balance them.
  void AssignSenders(std::vector<RecoveryChunk>* chunks) {
    std::vector<RecoveryChunk*> order;
    for (RecoveryChunk& chunk : *chunks) order.push_back(&chunk);
    std::stable_sort(order.begin(), order.end(),
                     [this](const RecoveryChunk* a, const RecoveryChunk* b) {
                       return HoldersOf(*a).size() < HoldersOf(*b).size();
                     });
    for (RecoveryChunk* chunk : order) {
      const std::vector<int>& holders = HoldersOf(*chunk);
      chunk->from = *std::min_element(
          holders.begin(), holders.end(),
          [this](int a, int b) { return LoadOf(a) < LoadOf(b); });
      LoadOf(chunk->from) += chunk->count * ElementBytes(chunk->tensor);
    }
  }

  const std::vector<int>& HoldersOf(const RecoveryChunk& chunk) const {
    return holders_[static_cast<size_t>(chunk.holders_of)];
  }
  int64_t& LoadOf(int rank) { return loads_[static_cast<size_t>(rank)]; }
  int64_t ElementBytes(int tensor) const {
    return static_cast<int64_t>(
        SizeOf(tensors_[static_cast<size_t>(tensor)].dtype));
  }

  const std::vector<StateTensor>& tensors_;
  const std::vector<RecoveryRole> roles_;
  std::vector<int64_t> loads_;  // bytes to send, by rank
  std::vector<Need> needs_;
  std::vector<std::vector<int>> holders_;
  std::map<std::vector<int>, int> numbers_;  // in `holders_`
  std::map<int, std::set<int>> lost_;        // tensor: newcomers
};

}  // namespace

absl::StatusOr<RecoveryPlan> PlanRecovery(
    const std::vector<StateTensor>& tensors, const Mesh& mesh,
    const std::vector<int>& newcomers, const std::vector<int>& healthy,
    int64_t chunk_bytes) {
  if (chunk_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("recovery: chunks of ", chunk_bytes, " bytes"));
  }
  absl::StatusOr<std::vector<RecoveryRole>> roles =
      RolesOf(mesh, newcomers, healthy);
  if (!roles.ok()) return roles.status();
  Planner planner(tensors, mesh, *std::move(roles));
  absl::Status recoverable = planner.Recoverable();
  if (!recoverable.ok()) return recoverable;
  return planner.Divide(chunk_bytes);
}

}  // namespace lockstep::plan

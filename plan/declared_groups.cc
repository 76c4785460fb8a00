#include "plan/declared_groups.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/rank_list.h"
#include "plan/axis_groups.h"

namespace lockstep::plan {
namespace {

using protocol::AxisGroupDeclaration;

std::vector<int> AsList(const std::set<int>& ranks) {
  return {ranks.begin(), ranks.end()};
}

// Adds the groups of one declaration that `ranks` are members of.
absl::Status AddGroups(const Mesh& mesh, const AxisGroupDeclaration& group,
                       const std::set<int>& ranks,
                       std::vector<CommunicatorSpec>* communicators) {
  const auto groups = GroupsOver(mesh, group.axes, group.index_groups);
  if (!groups.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a group over ", Describe(group), ", declared by ",
                     RankList(AsList(ranks)), ": ", groups.status().message()));
  }
  for (const std::vector<int>& members : groups->groups) {
    std::vector<int> absent;
    for (const int member : members) {
      if (!ranks.contains(member)) absent.push_back(member);
    }
    if (absent.size() == members.size()) continue;
    if (!absent.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a group over ", Describe(group), " is declared by ",
          RankList(AsList(ranks)), " and not by ", RankList(absent),
          ": all its members, ", RankList(members), ", must declare it"));
    }
    communicators->push_back({NameOfDeclared(group, members), members});
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOfDeclared(const AxisGroupDeclaration& group,
                           const std::vector<int>& members) {
  return absl::StrCat("group/", Describe(group), "@", members[0]);
}

absl::Status AddDeclaredGroups(
    const Mesh& mesh,
    const std::vector<std::vector<AxisGroupDeclaration>>& declared,
    std::vector<CommunicatorSpec>* communicators) {
  std::map<AxisGroupDeclaration, std::set<int>> ranks_of;
  for (size_t rank = 0; rank < declared.size(); ++rank) {
    for (const AxisGroupDeclaration& group : declared[rank]) {
      ranks_of[group].insert(static_cast<int>(rank));
    }
  }
  for (const auto& [group, ranks] : ranks_of) {
    absl::Status added = AddGroups(mesh, group, ranks, communicators);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan

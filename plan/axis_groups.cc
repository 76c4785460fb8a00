#include "plan/axis_groups.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::plan {
namespace {

absl::Status CheckAxes(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::set<std::string> seen;
  for (const std::string& axis : axes) {
    if (mesh.AxisIndex(axis) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the mesh ", ToString(mesh), " has no axis ", axis));
    }
    if (!seen.insert(axis).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the axis ", axis, " is named twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIndexGroups(const std::vector<std::vector<int>>& index_groups,
                              int size) {
  std::vector<bool> seen(static_cast<size_t>(size));
  for (const std::vector<int>& group : index_groups) {
    if (group.empty()) {
      return absl::InvalidArgumentError("an index group is empty");
    }
    for (const int index : group) {
      if (index < 0 || index >= size) {
        return absl::InvalidArgumentError(
            absl::StrCat("the index groups have ", index,
                         ", which is outside of the ", size, " members"));
      }
      if (seen[static_cast<size_t>(index)]) {
        return absl::InvalidArgumentError(
            absl::StrCat("the index groups have ", index, " twice"));
      }
      seen[static_cast<size_t>(index)] = true;
    }
  }
  const auto absent = std::find(seen.begin(), seen.end(), false);
  if (absent != seen.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the index groups lack ", absent - seen.begin(),
                     ": each of the ", size, " members must be in one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AxisGroups> GroupsOver(
    const Mesh& mesh, const std::vector<std::string>& axes,
    const std::vector<std::vector<int>>& index_groups) {
  if (absl::Status s = CheckAxes(mesh, axes); !s.ok()) return s;
  const std::vector<std::vector<int>> whole = mesh.GroupsOver(axes);
  if (index_groups.empty()) return AxisGroups{whole, true};
  const int size = static_cast<int>(whole[0].size());
  if (absl::Status s = CheckIndexGroups(index_groups, size); !s.ok()) return s;
  AxisGroups divided;
  for (const std::vector<int>& members : whole) {
    for (const std::vector<int>& indices : index_groups) {
      std::vector<int>& group = divided.groups.emplace_back();
      for (const int index : indices) {
        group.push_back(members[static_cast<size_t>(index)]);
      }
    }
  }
  for (const std::vector<int>& indices : index_groups) {
    divided.even &= indices.size() == index_groups[0].size();
  }
  return divided;
}

size_t GroupWith(const AxisGroups& groups, int rank) {
  for (size_t g = 0; g < groups.groups.size(); ++g) {
    const std::vector<int>& group = groups.groups[g];
    if (std::find(group.begin(), group.end(), rank) != group.end()) return g;
  }
  Fatal("no group has this rank");
}

}  // namespace lockstep::plan

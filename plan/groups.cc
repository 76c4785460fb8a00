#include "plan/groups.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::plan {
namespace {

// The axes of size above 1, in the order of the mesh.
std::vector<std::string> InMeshOrder(const Mesh& mesh,
                                     const std::vector<std::string>& axes) {
  std::vector<std::string> ordered;
  for (const MeshAxis& axis : mesh.axes) {
    const bool named =
        std::find(axes.begin(), axes.end(), axis.name) != axes.end();
    if (named && axis.size > 1) ordered.push_back(axis.name);
  }
  return ordered;
}

std::vector<std::string> AllAxes(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

// "data+pipe@3": the axes, and the lowest rank of the group.
std::string NameOf(const std::vector<std::string>& axes, int lowest_rank) {
  return absl::StrCat(axes.empty() ? "alone" : absl::StrJoin(axes, "+"), "@",
                      lowest_rank);
}

}  // namespace

Groups::Groups(const Mesh& mesh) : mesh_(mesh) {
  CommunicatorSpec verdict{.name = "verdict"};
  verdict.ranks.resize(mesh.WorldSize());
  std::iota(verdict.ranks.begin(), verdict.ranks.end(), 0);
  communicators_.push_back(std::move(verdict));
}

int Groups::Find(int rank, const std::vector<std::string>& axes) {
  const std::vector<std::string> ordered =
      InMeshOrder(mesh_, axes.empty() ? AllAxes(mesh_) : axes);
  std::vector<int>& index_of_rank = index_of_[ordered];
  if (index_of_rank.empty()) index_of_rank.assign(mesh_.WorldSize(), -1);
  if (index_of_rank[rank] < 0) {
    const int made = Make(rank, ordered);
    for (const int member : communicators_[made].ranks) {
      index_of_rank[member] = made;
    }
  }
  return index_of_rank[rank];
}

int Groups::Make(int rank, const std::vector<std::string>& axes) {
  CommunicatorSpec made{.ranks = mesh_.GroupOf(rank, axes)};
  made.name = NameOf(axes, made.ranks[0]);
  communicators_.push_back(std::move(made));
  return static_cast<int>(communicators_.size()) - 1;
}

}  // namespace lockstep::plan

#include "client/session/group_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/axis_groups.h"
#include "plan/declared_groups.h"

namespace lockstep::session {
namespace {

size_t IndicesIn(const protocol::AxisGroupDeclaration& declaration) {
  size_t count = 0;
  for (const std::vector<int>& indices : declaration.index_groups) {
    count += indices.size();
  }
  return count;
}

}  // namespace

absl::StatusOr<AxisGroup> GroupRegistry::Declare(
    const Mesh& mesh, int rank, bool checked,
    const protocol::AxisGroupDeclaration& declaration) {
  const auto groups =
      plan::GroupsOver(mesh, declaration.axes, declaration.index_groups);
  if (!groups.ok()) return groups.status();
  MutexLock lock(&mutex_);
  for (const Group& group : groups_) {
    if (group.declaration == declaration) return AxisGroup(group.impl);
  }
  if (declared_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the group over ", Describe(declaration),
        " is declared after GradientSync::Seal or Session::Connect: declare "
        "all groups before"));
  }
  const size_t indices = IndicesIn(declaration);
  if (groups_.size() == protocol::kAxisGroupsMax ||
      indices > protocol::kGroupIndicesMax - indices_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a rank declares at most ", protocol::kAxisGroupsMax, " groups with ",
        protocol::kGroupIndicesMax, " indices in index_groups together"));
  }
  indices_ += indices;
  const std::vector<int>& ranks =
      groups->groups[plan::GroupWith(*groups, rank)];
  const auto index = std::find(ranks.begin(), ranks.end(), rank);
  auto impl = std::make_shared<AxisGroup::Impl>(
      AxisGroupOptions{.axes = declaration.axes,
                       .index_groups = declaration.index_groups,
                       .size = static_cast<int>(ranks.size()),
                       .index = static_cast<int>(index - ranks.begin()),
                       .ranks = ranks,
                       .even = groups->even,
                       .checks_axes = true,
                       .checked = checked},
      AxisGroup::Impl::Causes{
          .of_communicator =
              [cause = of_communicator_, ranks](const std::string& call,
                                                const absl::Status& error) {
                return cause(ranks, call, error);
              },
          .of_values = of_values_});
  groups_.push_back({declaration, ranks, impl});
  return AxisGroup(std::move(impl));
}

std::vector<protocol::AxisGroupDeclaration> GroupRegistry::declarations() {
  MutexLock lock(&mutex_);
  declared_ = true;
  std::vector<protocol::AxisGroupDeclaration> declarations;
  for (const Group& group : groups_) declarations.push_back(group.declaration);
  return declarations;
}

absl::Status GroupRegistry::Connect(const plan::Plan& plan,
                                    const GroupMemory& memory,
                                    Communicators* communicators) {
  MutexLock lock(&mutex_);
  for (Group& group : groups_) {
    const std::string name =
        plan::NameOfDeclared(group.declaration, group.ranks);
    const auto planned =
        std::find_if(plan.communicators.begin(), plan.communicators.end(),
                     [&](const plan::CommunicatorSpec& spec) {
                       return spec.name == name && spec.ranks == group.ranks;
                     });
    if (planned == plan.communicators.end()) {
      return absl::InternalError(
          absl::StrCat("the plan has no communicator ", name));
    }
    const auto c = static_cast<size_t>(planned - plan.communicators.begin());
    group.communicator = std::move((*communicators)[c]);
    group.index = static_cast<int>(c);
    group.impl->Connect(group.communicator, memory);
  }
  return absl::OkStatus();
}

bool GroupRegistry::empty() const {
  MutexLock lock(&mutex_);
  return groups_.empty();
}

void GroupRegistry::Abort(const std::string& cause) {
  MutexLock lock(&mutex_);
  for (const Group& group : groups_) {
    if (group.communicator != nullptr) group.communicator->Abort(cause);
  }
}

void GroupRegistry::Close() {
  std::vector<std::shared_ptr<Communicator>> dropped;  // without the lock
  MutexLock lock(&mutex_);
  for (Group& group : groups_) {
    group.impl->Close();
    dropped.push_back(std::exchange(group.communicator, nullptr));
  }
}

std::vector<protocol::GroupProgress> GroupRegistry::progress() const {
  MutexLock lock(&mutex_);
  std::vector<protocol::GroupProgress> all;
  for (const Group& group : groups_) {
    protocol::GroupProgress progress = group.impl->progress();
    if (progress.calls == 0) continue;
    progress.communicator = group.index;
    all.push_back(std::move(progress));
  }
  return all;
}

}  // namespace lockstep::session

#include "client/session/halo_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/halo.h"

namespace lockstep::session {

absl::StatusOr<HaloExchange> HaloRegistry::Declare(const Mesh& mesh,
                                                   const HaloSpec& spec) {
  auto normalized = Normalized(spec, mesh);
  if (!normalized.ok()) return normalized.status();
  MutexLock lock(&mutex_);
  const std::string name = absl::StrCat("halo ", spec.name);
  if (declared_) {
    return absl::FailedPreconditionError(absl::StrCat(
        name,
        " is declared after GradientSync::Seal or Session::Connect: declare "
        "all exchanges before"));
  }
  for (const auto& halo : halos_) {
    if (halo->spec().name != spec.name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is declared twice on this rank"));
  }
  const size_t tensors = spec.tensors.size();
  if (halos_.size() == kHalosMax ||
      tensors > kHaloTensorsOfRankMax - tensors_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a rank declares at most ", kHalosMax, " halo exchanges with ",
        kHaloTensorsOfRankMax, " tensors together"));
  }
  tensors_ += tensors;
  halos_.push_back(
      std::make_shared<HaloExchange::Impl>(*std::move(normalized)));
  return HaloExchange(halos_.back());
}

std::vector<HaloSpec> HaloRegistry::declarations() {
  MutexLock lock(&mutex_);
  declared_ = true;
  std::vector<HaloSpec> declarations;
  for (const auto& halo : halos_) declarations.push_back(halo->spec());
  return declarations;
}

bool HaloRegistry::empty() const {
  MutexLock lock(&mutex_);
  return halos_.empty();
}

absl::Status HaloRegistry::Connect(
    const plan::Plan& plan, int rank, bool checked,
    std::shared_ptr<transport::DeviceContext> context,
    halo::HaloGroup::Allocate allocate,
    std::shared_ptr<executor::LaneTraffic> traffic,
    Communicators* communicators) {
  MutexLock lock(&mutex_);
  // The exchanges keep the plan: their messages are transfers of it.
  const auto shared = std::make_shared<const plan::Plan>(plan);
  for (const auto& halo : halos_) {
    const std::vector<plan::HaloRoutes>& all = shared->ranks[rank].halos;
    const auto routes = std::find_if(
        all.begin(), all.end(), [&](const plan::HaloRoutes& candidate) {
          return shared->halos[candidate.halo].name == halo->spec().name;
        });
    if (routes == all.end()) {
      return absl::InternalError(
          absl::StrCat("the plan has no halo ", halo->spec().name));
    }
    const plan::Halo& planned = shared->halos[routes->halo];
    Group& group = groups_[planned.communicator];
    if (group.group == nullptr) {
      if (planned.communicator >= 0) {
        const auto index =
            std::find(planned.ranks.begin(), planned.ranks.end(), rank);
        group.members = std::make_shared<AxisGroup::Impl>(
            AxisGroupOptions{
                .size = static_cast<int>(planned.ranks.size()),
                .index = static_cast<int>(index - planned.ranks.begin()),
                .ranks = planned.ranks,
                .checked = checked},
            AxisGroup::Impl::Causes{
                .of_communicator =
                    [cause = of_communicator_, ranks = planned.ranks](
                        const std::string& call, const absl::Status& error) {
                      return cause(ranks, call, error);
                    }});
        group.communicator = std::move((*communicators)[planned.communicator]);
        GroupMemory memory{.allocate = allocate};
        if (context->NeedsOneOrder()) memory.device = context;
        group.members->Connect(group.communicator, std::move(memory));
      }
      group.group = std::make_shared<halo::HaloGroup>(group.members, context,
                                                      allocate, traffic);
    }
    absl::Status connected = halo->Connect(shared, rank, *routes, group.group);
    if (!connected.ok()) return connected;
  }
  return absl::OkStatus();
}

void HaloRegistry::Abort(const std::string& cause) {
  MutexLock lock(&mutex_);
  for (const auto& [index, group] : groups_) {
    if (group.communicator != nullptr) group.communicator->Abort(cause);
  }
}

void HaloRegistry::Close() {
  std::vector<std::shared_ptr<const void>> in_use;
  std::map<int, Group> dropped;
  {
    MutexLock lock(&mutex_);
    for (const auto& halo : halos_) in_use.push_back(halo->Close());
    dropped.swap(groups_);
  }
  // Without the lock: calls in flight end with an error.
  for (auto& [index, group] : dropped) {
    if (group.members != nullptr) {
      if (group.members->progress().waits()) {
        group.communicator->Abort("this worker has left the job");
      }
      group.members->Close();
    }
    group.group->Drain();
  }
}

std::vector<protocol::GroupProgress> HaloRegistry::progress() const {
  MutexLock lock(&mutex_);
  std::vector<protocol::GroupProgress> all;
  for (const auto& [index, group] : groups_) {
    if (group.members == nullptr) continue;
    protocol::GroupProgress progress = group.members->progress();
    if (progress.calls == 0) continue;
    progress.communicator = index;
    all.push_back(std::move(progress));
  }
  return all;
}

}  // namespace lockstep::session

#include "client/transport/hierarchical/hierarchical_executor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/transport/hierarchical/hierarchical_context.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/shm_host.h"

namespace lockstep::transport {
namespace {

// A chunk that fits the stages of the host with the most ranks fits all.
size_t ChunkBytes(const Placement& placement, TrafficClass traffic) {
  const ControlBlock::Shape shape = ShmHost::ShapeOf(placement.most(), traffic);
  return shape.chunk_bytes / placement.most();
}

class HierarchicalExecutor final : public CollectiveExecutor {
 public:
  HierarchicalExecutor(int rank, const Placement& placement,
                       TrafficClass traffic,
                       std::unique_ptr<ShmGroup> shm_group,
                       std::unique_ptr<Link> link)
      : placement_(placement),
        shm_group_(std::move(shm_group)),
        link_(std::move(link)),
        context_{placement_,  rank,   ChunkBytes(placement, traffic),
                 *shm_group_, *link_, scratch_} {
    link_->OnProgress(
        [shm_group = shm_group_.get()] { shm_group->Wake(shm_group->rank()); });
  }

  int rank() const override { return context_.rank; }
  int size() const override { return placement_.ranks(); }
  std::string_view transport() const override { return "hierarchical"; }

  // Partial sums are sent from host to host along a chain, not up a tree.
  bool sums_in_pairs() const override { return false; }

  absl::Status Execute(std::span<const CollectiveOp> calls) override {
    CollectiveTasks tasks;
    tasks.reserve(calls.size());
    for (const CollectiveOp& call : calls) tasks.push_back(TaskOf(call));
    return InGroup(RunTasks(std::move(tasks), *shm_group_));
  }

  void Shutdown(const absl::Status& why) override {
    const int because = FailedPeer(why).value_or(rank());
    link_->Shutdown(because);
    shm_group_->Leave(InShmGroup(because));
  }

 private:
  std::unique_ptr<CollectiveTask> TaskOf(const CollectiveOp& call) const {
    if (IsSmallReduction(call, placement_)) {
      return MakeSmallReduction(call, context_);
    }
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kAllGather:
      case CollectiveKind::kBroadcast:
        return MakeHierarchicalCollective(call, context_);
      default: return MakeDirectExchange(call, context_);
    }
  }

  // Converts a rank of the group to its number in the ShmGroup, and the failed
  // peer of an error back.
  int InShmGroup(int rank) const {
    return placement_.host(rank) == context_.host()
               ? placement_.index(rank)
               : shm_group_->Outsider(rank);
  }
  absl::Status InGroup(absl::Status status) const {
    const auto failed_peer = FailedPeer(status);
    return failed_peer ? WithFailedPeer(std::move(status),
                                        shm_group_->InGroup(*failed_peer))
                       : status;
  }

  const Placement placement_;
  ScratchPool scratch_;
  const std::unique_ptr<ShmGroup> shm_group_;  // outlives link_, which wakes it
  const std::unique_ptr<Link> link_;
  const HierarchicalContext context_;
};

}  // namespace

std::unique_ptr<CollectiveExecutor> MakeHierarchicalExecutor(
    int rank, const Placement& placement, TrafficClass traffic,
    std::unique_ptr<ShmGroup> shm_group, std::unique_ptr<Link> link) {
  return std::make_unique<HierarchicalExecutor>(
      rank, placement, traffic, std::move(shm_group), std::move(link));
}

}  // namespace lockstep::transport

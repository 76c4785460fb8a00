#include "client/transport/hierarchical/hierarchical_executor.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/transport/hierarchical/crew.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/shm_host.h"

namespace lockstep::transport {
namespace {

// What passes the stages of the host with the most ranks passes all.
size_t ChunkBytes(const Placement& placement, Traffic traffic) {
  const Seat::Shape shape = ShmHost::ShapeOf(placement.most(), traffic);
  return shape.chunk_bytes / placement.most();
}

class HierarchicalExecutor final : public Executor {
 public:
  HierarchicalExecutor(int rank, const Placement& placement, Traffic traffic,
                       std::unique_ptr<Board> board, std::unique_ptr<Link> link)
      : placement_(placement),
        board_(std::move(board)),
        link_(std::move(link)),
        crew_{placement_, rank,   ChunkBytes(placement, traffic),
              *board_,    *link_, scratch_} {
    link_->OnNews([board = board_.get()] { board->Ring(board->rank()); });
  }

  int rank() const override { return crew_.rank; }
  int size() const override { return placement_.ranks(); }
  std::string_view transport() const override { return "hierarchical"; }

  // A carry goes from host to host in a line, not in a tree.
  bool sums_in_pairs() const override { return false; }

  absl::Status Execute(std::span<const Call> calls) override {
    Tasks tasks;
    tasks.reserve(calls.size());
    for (const Call& call : calls) tasks.push_back(TaskOf(call));
    return InGroup(RunTasks(std::move(tasks), *board_));
  }

  void Cut(const absl::Status& why) override {
    const int because = BlamedRank(why).value_or(rank());
    link_->Cut(because);
    board_->Leave(OnBoard(because));
  }

 private:
  std::unique_ptr<Task> TaskOf(const Call& call) const {
    if (IsSmallReduction(call, placement_)) {
      return MakeSmallReduction(call, crew_);
    }
    switch (call.kind) {
      case CallKind::kAllReduce:
      case CallKind::kReduceScatter:
      case CallKind::kAllGather:
      case CallKind::kBroadcast: return MakeHierarchicalCollective(call, crew_);
      default: return MakeDirect(call, crew_);
    }
  }

  // A rank of the group as the board numbers it, and an error that blames such
  // a number as the group knows it.
  int OnBoard(int rank) const {
    return placement_.host(rank) == crew_.host() ? placement_.index(rank)
                                                 : board_->Outsider(rank);
  }
  absl::Status InGroup(absl::Status status) const {
    const auto blamed = BlamedRank(status);
    return blamed ? Blame(std::move(status), board_->InGroup(*blamed)) : status;
  }

  const Placement placement_;
  ScratchPool scratch_;
  const std::unique_ptr<Board> board_;  // rung by the link, to its end
  const std::unique_ptr<Link> link_;
  const Crew crew_;
};

}  // namespace

std::unique_ptr<Executor> MakeHierarchicalExecutor(int rank,
                                                   const Placement& placement,
                                                   Traffic traffic,
                                                   std::unique_ptr<Board> board,
                                                   std::unique_ptr<Link> link) {
  return std::make_unique<HierarchicalExecutor>(
      rank, placement, traffic, std::move(board), std::move(link));
}

}  // namespace lockstep::transport

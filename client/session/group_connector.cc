// Connect: from a plan to communicators that connect all its ranks.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text/rank_list.h"
#include "client/session/session_impl.h"
#include "client/transport/extended_collectives.h"

namespace lockstep {

using session::SessionPhase;
using session::View;

namespace {

// Communicator 0 is the verdict's.
transport::TrafficClass TrafficOf(const plan::Plan& plan, int communicator) {
  if (communicator == 0) return transport::TrafficClass::kSmall;
  for (const plan::RankPlan& rank : plan.ranks) {
    for (const plan::Lane& lane : rank.lanes) {
      const bool between_neighbours = lane.kind == plan::LaneKind::kPipeline ||
                                      lane.kind == plan::LaneKind::kHalo;
      if (between_neighbours && !lane.transfers.empty() &&
          lane.transfers[0].communicator == communicator) {
        return transport::TrafficClass::kMessages;
      }
    }
  }
  return transport::TrafficClass::kBulk;
}

// Connects the groups of one rank, from their handles to communicators.
//
// All ranks connect in the plan's order, so this cannot deadlock: the members
// of the lowest unconnected group are connecting it, or are about to.
class GroupConnector {
 public:
  GroupConnector(const plan::Plan& plan, int rank) : plan_(plan), rank_(rank) {
    for (size_t c = 0; c < plan.communicators.size(); ++c) {
      const std::vector<int>& ranks = plan.communicators[c].ranks;
      const auto place = std::find(ranks.begin(), ranks.end(), rank);
      if (place == ranks.end()) continue;
      groups_.push_back({.index = static_cast<int>(c),
                         .rank = static_cast<int>(place - ranks.begin())});
    }
  }

  // Creates the pending groups. `prefix` makes their names globally unique.
  absl::Status Prepare(transport::Transport& transport,
                       const std::string& prefix) {
    for (Group& group : groups_) {
      const plan::CommunicatorSpec& communicator =
          plan_.communicators[group.index];
      auto pending = transport.Prepare(
          {.name = prefix + communicator.name,
           .rank = group.rank,
           .size = static_cast<int>(communicator.ranks.size()),
           .traffic = TrafficOf(plan_, group.index)});
      if (!pending.ok()) return pending.status();
      group.pending = *std::move(pending);
    }
    return absl::OkStatus();
  }

  std::vector<protocol::GroupHandle> Handles() const {
    std::vector<protocol::GroupHandle> handles;
    for (const Group& group : groups_) {
      handles.push_back({group.index, group.pending->handle()});
    }
    return handles;
  }

  bool HasAllHandles(const View& view) const {
    return std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) {
      return view.handles.count(group.index) > 0;
    });
  }

  // From any thread, between Prepare and the destructor.
  void Abort(const absl::Status& why) {
    const std::string cause(why.message());
    for (Group& group : groups_) group.pending->Abort(cause);
  }

  // Connects one group after the other, all until `deadline`. On failure
  // `failed()` is the group.
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> Connect(
      const View& view, const Clock& clock, absl::Time deadline) {
    std::vector<std::unique_ptr<Communicator>> communicators(
        plan_.communicators.size());
    for (Group& group : groups_) {
      failed_ = group.index;
      auto connected = group.pending->Connect(view.handles.at(group.index),
                                              deadline - clock.Now());
      if (!connected.ok()) return connected.status();
      communicators[group.index] = *std::move(connected);
    }
    return communicators;
  }

  // After Connect: the transport that connects each group, and why.
  std::vector<protocol::GroupTransport> Transports(
      const std::vector<std::unique_ptr<Communicator>>& communicators) const {
    std::vector<protocol::GroupTransport> transports;
    for (const Group& group : groups_) {
      const std::string_view name = communicators[group.index]->transport();
      const std::string why = group.pending->choice();
      transports.push_back(
          {group.index, why.empty() ? std::string(name)
                                    : absl::StrFormat("%s (%s)", name, why)});
    }
    return transports;
  }

  // After Connect: FailedPrecondition if a group lacks an operation of the
  // plan. The plan was compiled from the workers' reported capabilities; there
  // is no fallback for a missing operation.
  absl::Status CheckAbilities(
      const std::vector<std::unique_ptr<Communicator>>& communicators) const {
    for (const plan::Lane& lane : plan_.ranks[rank_].lanes) {
      for (const plan::Transfer& transfer : lane.transfers) {
        if (transfer.kind != plan::TransferKind::kAllReducePairs ||
            transport::SumsInPairs(*communicators[transfer.communicator])) {
          continue;
        }
        const plan::CommunicatorSpec& group =
            plan_.communicators[transfer.communicator];
        return absl::FailedPreconditionError(absl::StrFormat(
            "group '%s' (%s) is connected by the transport '%s' and cannot sum "
            "in pairs; the plan has in it: %s",
            group.name, RankList(group.ranks),
            communicators[transfer.communicator]->transport(),
            plan::Describe(transfer)));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<int>& failed() const {
    return plan_.communicators[failed_].ranks;
  }

 private:
  struct Group {
    int index;  // in the plan
    int rank;   // of this process, in the group
    std::unique_ptr<transport::PendingGroup> pending;
  };

  const plan::Plan& plan_;
  const int rank_;
  std::vector<Group> groups_;
  int failed_ = 0;
};

bool HasPipeline(const plan::RankPlan& rank) {
  return !rank.tasks.empty() ||
         std::any_of(rank.lanes.begin(), rank.lanes.end(),
                     [](const plan::Lane& lane) {
                       return lane.kind == plan::LaneKind::kPipeline &&
                              !lane.transfers.empty();
                     });
}

// A watch that is removed at the end of the scope.
class ScopedWatch {
 public:
  ScopedWatch(session::EventLoop& event_loop, session::EventLoop::Watch watch)
      : event_loop_(event_loop),
        number_(event_loop.AddWatch(std::move(watch))) {}
  ~ScopedWatch() { event_loop_.RemoveWatch(number_); }
  ScopedWatch(const ScopedWatch&) = delete;
  ScopedWatch& operator=(const ScopedWatch&) = delete;

 private:
  session::EventLoop& event_loop_;
  const uint64_t number_;
};

}  // namespace

absl::StatusOr<PlanInEffect> Session::Impl::Connect(plan::Plan plan) {
  GroupConnector connector(plan, rank());
  const absl::Status prepared = connector.Prepare(
      *transport_, absl::StrFormat("%s/%d/", options_.job, epoch().value));
  if (!prepared.ok()) return FailHere(step(), "Connect", prepared);
  const ScopedWatch watch(*event_loop_, [&connector](const absl::Status& why) {
    connector.Abort(why);
  });

  event_loop_->Post(session::OfferHandles{connector.Handles()});
  const absl::Status offered = AwaitUnlessOver(
      [&connector](const View& view) { return connector.HasAllHandles(view); });
  if (!offered.ok()) return offered;

  auto communicators = connector.Connect(
      *event_loop_->view(), *clock_, clock_->Now() + spec().timeouts.connect);
  if (!communicators.ok()) {
    ReportPeerFailure(connector.failed(), communicators.status());
    return Explain("Connect", communicators.status());
  }
  const absl::Status able = connector.CheckAbilities(*communicators);
  if (!able.ok()) return FailHere(step(), "Connect", able);
  event_loop_->Post(
      session::DataPlaneConnected{connector.Transports(*communicators)});
  const absl::Status started = AwaitUnlessOver(
      [](const View& view) { return view.phase >= SessionPhase::kRunning; });
  if (!started.ok()) return started;
  const absl::Status grouped = ConnectDeclared(plan, &*communicators);
  if (!grouped.ok()) return FailHere(step(), "Connect", grouped);
  auto compute = transport_->MakeDeviceContext();
  if (!compute.ok()) return FailHere(step(), "Connect", compute.status());
  auto executor = executor::Executor::Create(*std::move(communicators),
                                             *std::move(compute));
  if (!executor.ok()) return FailHere(step(), "Connect", executor.status());
  (*executor)->CountTraffic(traffic_);
  PlanInEffect connected{std::move(plan), rank(), *std::move(executor)};
  if (HasPipeline(connected.plan.ranks[rank()])) pipeline_ = connected;
  return connected;
}

absl::StatusOr<PlanInEffect> Session::Impl::TakePipeline() {
  if (!pipeline_.has_value()) {
    return absl::FailedPreconditionError(
        spec().pipeline.schedule == PipelineSchedule::kNone
            ? "the job's spec has no pipeline"
            : "there is no plan yet (GradientSync::Seal makes it), or the "
              "pipeline is taken");
  }
  PlanInEffect taken = *std::move(pipeline_);
  pipeline_.reset();
  return taken;
}

}  // namespace lockstep

// The groups of a plan: the traffic that each group's transport prepares for,
// and that each group supports the plan's operations.

#include <map>
#include <memory>
#include <string>

#include "tests/client/session/played_session.h"
#include "tests/support/forwarding_communicator.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using transport::TrafficClass;

// Records the traffic of each group, by the group's name in the plan; never
// connects.
class NotesTraffic final : public transport::Transport {
 public:
  explicit NotesTraffic(std::map<std::string, TrafficClass>* traffic)
      : traffic_(*traffic) {}
  std::string_view name() const override { return "notes"; }
  TransportFacts facts() const override { return {}; }
  absl::StatusOr<std::unique_ptr<transport::PendingGroup>> Prepare(
      const transport::GroupSpec& group) override {
    const std::string plans_name = group.name.substr(group.name.rfind('/') + 1);
    traffic_[plans_name] = group.traffic;
    return std::make_unique<Pending>();
  }

 private:
  class Pending final : public transport::PendingGroup {
   public:
    const std::string& handle() const override { return handle_; }
    absl::StatusOr<std::unique_ptr<Communicator>> Connect(
        const std::vector<std::string>&, absl::Duration) override {
      return absl::UnimplementedError("it never connects");
    }
    void Abort(std::string_view) override {}

   private:
    const std::string handle_ = "a handle";
  };

  std::map<std::string, TrafficClass>& traffic_;
};

// Reports that all its groups sum in pairs; the groups of one name cannot.
class SomeCannot final : public transport::Transport {
 public:
  explicit SomeCannot(std::string cannot)
      : inner_(transport::MakeInprocTransport(&hub_)),
        cannot_(std::move(cannot)) {}
  std::string_view name() const override { return inner_->name(); }
  TransportFacts facts() const override { return inner_->facts(); }
  absl::StatusOr<std::unique_ptr<transport::PendingGroup>> Prepare(
      const transport::GroupSpec& group) override {
    auto inner = inner_->Prepare(group);
    const bool can = group.name.find(cannot_) == std::string::npos;
    if (!inner.ok() || can) return inner;
    return std::make_unique<Pending>(*std::move(inner));
  }

 private:
  class NoPairs final : public ForwardingCommunicator {
   public:
    explicit NoPairs(std::unique_ptr<Communicator> inner)
        : ForwardingCommunicator(std::move(inner)) {}
    bool SumsInPairs() const override { return false; }
  };
  class Pending final : public transport::PendingGroup {
   public:
    explicit Pending(std::unique_ptr<transport::PendingGroup> inner)
        : inner_(std::move(inner)) {}
    const std::string& handle() const override { return inner_->handle(); }
    absl::StatusOr<std::unique_ptr<Communicator>> Connect(
        const std::vector<std::string>& handles,
        absl::Duration timeout) override {
      auto inner = inner_->Connect(handles, timeout);
      if (!inner.ok()) return inner;
      return std::make_unique<NoPairs>(*std::move(inner));
    }
    void Abort(std::string_view cause) override { inner_->Abort(cause); }

   private:
    const std::unique_ptr<transport::PendingGroup> inner_;
  };

  transport::InprocHub hub_;
  const std::unique_ptr<transport::Transport> inner_;
  const std::string cannot_;
};

class GroupConnectorTest : public PlayedSession {
 protected:
  // Joins with `transport` in place of NoTransport.
  void JoinWith(std::unique_ptr<transport::Transport> transport) {
    auto joining = Async([&] {
      auto parts = Parts();
      parts.make_transport = [&](const JobSpec&)
          -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        return std::move(transport);
      };
      return Session::Impl::Join(
          {.addresses = {"host:1"}, .job = "job", .worker = "a"},
          std::move(parts));
    });
    Welcome();
    Post(protocol::EpochFormed{0, {{{"a"}, {1}, {"host-a", 11, "boot"}}}});
    auto session = joining.get();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  void Connect(const plan::Plan& plan) {
    auto connecting =
        Async([&] { return session_->impl().Connect(plan).status(); });
    server_.Next<protocol::PublishHandles>();
    EndEpoch("that was all");
    EXPECT_EQ(connecting.get(), absl::AbortedError("that was all"));
  }

  // Connects all groups of a plan whose only rank is this one.
  auto ConnectAlone(const plan::Plan& plan) {
    Post(protocol::PlanReady{plan.revision, "digest"});
    auto connecting =
        Async([this, plan] { return session_->impl().Connect(plan).status(); });
    for (const auto& [communicator, handle] :
         server_.Next<protocol::PublishHandles>().second.handles) {
      Post(protocol::GroupHandles{communicator, {{handle}}});
    }
    return connecting;
  }

  std::map<std::string, TrafficClass> traffic_;
};

// Adds a lane, and a group of this rank alone for it.
void AddLane(plan::Plan& plan, plan::LaneKind kind, const std::string& name,
             plan::TransferKind transfer = plan::TransferKind::kBarrier) {
  const int communicator = static_cast<int>(plan.communicators.size());
  plan.communicators.push_back({name, {0}});
  plan.ranks[0].lanes.push_back({.kind = kind,
                                 .name = name,
                                 .transfers = {{.kind = transfer,
                                                .communicator = communicator,
                                                .shape = {12},
                                                .bucket = 0}}});
}

TEST_F(GroupConnectorTest, OnlyGradientsAndStateAreSaidToBeBulk) {
  JoinWith(std::make_unique<NotesTraffic>(&traffic_));
  plan::Plan plan{.mesh = Spec().mesh,
                  .communicators = {{"verdict", {0}}},
                  .ranks = std::vector<plan::RankPlan>(1)};
  AddLane(plan, plan::LaneKind::kGradient, "gradient");
  AddLane(plan, plan::LaneKind::kHalo, "halo");
  AddLane(plan, plan::LaneKind::kPipeline, "pipeline");
  AddLane(plan, plan::LaneKind::kState, "state");
  Connect(plan);
  EXPECT_THAT(traffic_, ElementsAre(Pair("gradient", TrafficClass::kBulk),
                                    Pair("halo", TrafficClass::kMessages),
                                    Pair("pipeline", TrafficClass::kMessages),
                                    Pair("state", TrafficClass::kBulk),
                                    Pair("verdict", TrafficClass::kSmall)));
}

plan::Plan WithSumsInPairs() {
  plan::Plan plan{.mesh = {{{"data", 1}}},
                  .communicators = {{"verdict", {0}}},
                  .ranks = std::vector<plan::RankPlan>(1)};
  AddLane(plan, plan::LaneKind::kGradient, "in pairs",
          plan::TransferKind::kAllReducePairs);
  AddLane(plan, plan::LaneKind::kState, "in order",
          plan::TransferKind::kAllReduce);
  return plan;
}

TEST_F(GroupConnectorTest,
       AGroupThatCannotSumInPairsAsThePlanSaysEndsTheEpoch) {
  JoinWith(std::make_unique<SomeCannot>("in pairs"));
  auto connecting = ConnectAlone(WithSumsInPairs());
  const auto failure = server_.Next<protocol::LocalFailure>().second;
  EXPECT_EQ(failure.call, "Connect");
  EXPECT_EQ(failure.code, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(failure.message,
              AllOf(HasSubstr("'in pairs'"), HasSubstr("rank 0"),
                    HasSubstr("'inproc'"), HasSubstr("12 f32, bucket 0")));
  EXPECT_THAT(connecting.get().message(), HasSubstr(failure.message));
}

TEST_F(GroupConnectorTest, AGroupThatThePlanDoesNotAskForPairsNeedNotBeAbleTo) {
  JoinWith(std::make_unique<SomeCannot>("in order"));
  auto connecting = ConnectAlone(WithSumsInPairs());
  server_.Next<protocol::Connected>();
  Post(protocol::Start{});
  EXPECT_EQ(connecting.get(), absl::OkStatus());
}

}  // namespace
}  // namespace lockstep::session

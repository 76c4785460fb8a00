// What each group of a plan is said to carry when its transport makes it ready.

#include <map>
#include <memory>
#include <string>

#include "tests/client/session/played_session.h"

namespace lockstep::session {
namespace {

using testing::ElementsAre;
using testing::Pair;
using transport::Traffic;

// Notes what it is told, by the group's name in the plan; never connects.
class NotesTraffic final : public transport::Transport {
 public:
  explicit NotesTraffic(std::map<std::string, Traffic>* traffic)
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

  std::map<std::string, Traffic>& traffic_;
};

class WiringTest : public PlayedSession {
 protected:
  // In place of the transport that never gets so far.
  void JoinNoting() {
    auto joining = Async([this] {
      auto parts = Parts();
      parts.make_transport = [this](const JobSpec&)
          -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        return std::make_unique<NotesTraffic>(&traffic_);
      };
      return Session::Internals::Join(
          {.addresses = {"host:1"}, .job = "job", .worker = "a"},
          std::move(parts));
    });
    Welcome();
    Say(protocol::EpochFormed{0, {{{"a"}, {1}, {"host-a", 11, "boot"}}}});
    auto session = joining.get();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  void Connect(const plan::Plan& plan) {
    auto connecting =
        Async([&] { return session_->internals().Connect(plan).status(); });
    server_.Next<protocol::PublishHandles>();
    EndEpoch("that was all");
    EXPECT_EQ(connecting.get(), absl::AbortedError("that was all"));
  }

  std::map<std::string, Traffic> traffic_;
};

// A group of this rank alone, which one lane uses.
void AddLane(plan::Plan& plan, plan::LaneKind kind, const std::string& name) {
  const int communicator = static_cast<int>(plan.communicators.size());
  plan.communicators.push_back({name, {0}});
  plan.ranks[0].lanes.push_back(
      {.kind = kind,
       .name = name,
       .transfers = {{.kind = plan::TransferKind::kBarrier,
                      .communicator = communicator}}});
}

TEST_F(WiringTest, OnlyGradientsAndStateAreSaidToBeBulk) {
  JoinNoting();
  plan::Plan plan{.mesh = Spec().mesh,
                  .communicators = {{"verdict", {0}}},
                  .ranks = std::vector<plan::RankPlan>(1)};
  AddLane(plan, plan::LaneKind::kGradient, "gradient");
  AddLane(plan, plan::LaneKind::kHalo, "halo");
  AddLane(plan, plan::LaneKind::kPipeline, "pipeline");
  AddLane(plan, plan::LaneKind::kState, "state");
  Connect(plan);
  EXPECT_THAT(traffic_, ElementsAre(Pair("gradient", Traffic::kBulk),
                                    Pair("halo", Traffic::kMessages),
                                    Pair("pipeline", Traffic::kMessages),
                                    Pair("state", Traffic::kBulk),
                                    Pair("verdict", Traffic::kSmall)));
}

}  // namespace
}  // namespace lockstep::session

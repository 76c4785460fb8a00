// A worker's messages without failures, and their intervals.

#include <vector>

#include "tests/client/session/machine_fixture.h"

namespace lockstep::session {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

BusyChanged BusyWith(const std::string& reason) {
  return {{reason, absl::Seconds(60)}};
}

TEST_F(MachineTest, SendsProgressAtOnceAfterAQuietInterval) {
  Running();
  EXPECT_EQ(Step(0.2, MovedTo(1)), "send 1: progress step 1");
}

TEST_F(MachineTest, CoalescesProgressAndSendsOnlyTheNewest) {
  Running();
  Step(0.2, MovedTo(1));
  EXPECT_EQ(Step(0.22, MovedTo(2)), "");
  EXPECT_EQ(Step(0.24, MovedTo(3)), "");
  EXPECT_EQ(machine_->NextWake(), At(0.2) + absl::Milliseconds(100));
  EXPECT_EQ(Step(0.31, DeadlineExpired{}), "send 1: progress step 3");
}

TEST_F(MachineTest, SendsNothingIfNothingChangedButAHeartbeatInTime) {
  Running();
  Step(0.2, MovedTo(1));
  EXPECT_EQ(Step(0.4, MovedTo(1)), "");
  EXPECT_EQ(machine_->NextWake(), At(0.2) + kLease / 4);
  EXPECT_EQ(Step(0.7, DeadlineExpired{}), "send 1: heartbeat");
}

TEST_F(MachineTest, LivesAudiblyWhileItWaitsForOthers) {
  Welcomed();
  EXPECT_EQ(Step(0.5, DeadlineExpired{}), "send 1: heartbeat");
}

TEST_F(MachineTest, SaysAtMostTenThingsASecondAtAnyStepRate) {
  Running();
  std::vector<double> sent;
  double now = 1;
  for (uint64_t step = 1; now < 4; ++step, now += 0.0007) {
    if (Step(now, MovedTo(step)) != "") sent.push_back(now);
    if (Step(now, BusyWith(step % 2 == 0 ? "" : "x")) != "") {
      sent.push_back(now);
    }
  }
  ASSERT_GT(sent.size(), 25u);
  for (size_t i = 10; i < sent.size(); ++i) {
    EXPECT_GE(sent[i] - sent[i - 10], 0.9999) << "11 messages in a second";
  }
}

// Rank 1 of a job in negotiated mode announces and submits more often than
// Progress is due.
TEST_F(MachineTest, FrequentPassesDoNotDelayProgress) {
  Planned();
  JobSpec spec = Spec();
  spec.sync = SyncMode::kNegotiated;
  Receive(0, 1, protocol::Welcome{{3}, spec, true});
  Receive(0, 1, protocol::GroupHandles{0, {"a", "mine"}});
  Step(0, DataPlaneConnected{});
  Receive(0, 1, protocol::Start{});
  std::vector<double> sent;
  double now = 1;
  const auto note = [&](const std::string& said) {
    if (said.find("progress") != std::string::npos) sent.push_back(now);
  };
  for (uint64_t step = 1; now < 4; ++step, now += 0.003) {
    note(Step(now, AnnouncePass{{step, {0}}}));
    note(Step(now, SubmitInPass{{step, {0}}}));
    note(Step(now, MovedTo(step)));
  }
  ASSERT_GE(sent.size(), 29u);
  for (size_t i = 1; i < sent.size(); ++i) {
    EXPECT_GE(sent[i] - sent[i - 1], 0.0999);
    EXPECT_LE(sent[i] - sent[i - 1], 0.1031);
  }
}

TEST_F(MachineTest, AnyMessageReplacesAHeartbeat) {
  Running();
  Step(0.2, MovedTo(1));
  Step(0.5, PeerFailed{{.subject = {"a"},
                        .kind = protocol::EvidenceKind::kPeerReset}});
  EXPECT_EQ(Step(0.7, DeadlineExpired{}), "");
  EXPECT_EQ(machine_->NextWake(), At(0.5) + kLease / 4);
}

// The coordinator decides by the position whether the job needs the peer.
TEST_F(MachineTest, SaysWhereItIsBeforeItAccusesAPeer) {
  Running();
  Step(0.2, MovedTo(1));
  Step(0.21, MovedTo(2));
  EXPECT_THAT(
      Step(0.22, PeerFailed{{.subject = {"a"},
                             .kind = protocol::EvidenceKind::kPeerReset}}),
      ContainsRegex("progress step 2.*evidence against a"));
}

TEST_F(MachineTest, BusyAndProgressTakeTurns) {
  Running();
  std::string said;
  for (uint64_t i = 1; i <= 4; ++i) {
    const double now = 1 + 0.11 * static_cast<double>(i);
    said += Step(now, BusyWith(std::to_string(i)));
    said += Step(now + 0.05, MovedTo(i));
  }
  EXPECT_THAT(said, HasSubstr("progress"));
  EXPECT_THAT(said, HasSubstr("busy"));
}

TEST_F(MachineTest, TellsThatItIsBusyAgainAfterALostStream) {
  Running();
  EXPECT_EQ(Step(1, BusyWith("loading")), "send 1: busy 'loading'");
  EXPECT_EQ(Resume(2, 1), "send 2: busy 'loading'");
}

TEST_F(MachineTest, SaysNothingOfItsStepsOutsideAnEpoch) {
  Welcomed();
  EXPECT_EQ(Step(0.2, MovedTo(1)), "");
  EXPECT_EQ(Receive(0.2, 1, protocol::EpochFormed{1, Members()}),
            "send 1: progress step 1");
  HearEnd(0.3, 1, protocol::CauseKind::kLeft, "x");
  EXPECT_EQ(Step(0.5, MovedTo(2)), "");
  EXPECT_EQ(Step(0.7, DeadlineExpired{}), "send 1: heartbeat");
}

}  // namespace
}  // namespace lockstep::session

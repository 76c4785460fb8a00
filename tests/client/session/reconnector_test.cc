// When and where the machine opens streams, and when it stops trying.

#include <vector>

#include "tests/client/session/machine_fixture.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

const absl::Status kDown = absl::UnavailableError("connection refused");

class MachineWithThreeAddresses : public MachineTest {
 protected:
  MachineWithThreeAddresses() : MachineTest(3) {}
};

TEST_F(MachineWithThreeAddresses, TriesThemInTurn) {
  EXPECT_EQ(Step(0, Begin{}), "open 1 at 0");
  Step(1, StreamClosed{1, kDown});
  EXPECT_EQ(Step(2, DeadlineExpired{}), "open 2 at 1");
  Step(2, StreamClosed{2, kDown});
  EXPECT_EQ(Step(3, DeadlineExpired{}), "open 3 at 2");
  Step(3, StreamClosed{3, kDown});
  EXPECT_EQ(Step(4, DeadlineExpired{}), "open 4 at 0");
}

TEST_F(MachineWithThreeAddresses, TriesTheOneThatWelcomedItFirst) {
  Step(0, Begin{});
  Step(0, StreamClosed{1, kDown});
  EXPECT_EQ(Step(1, DeadlineExpired{}), "open 2 at 1");
  Step(1, StreamOpened{2});
  Receive(1, 2, protocol::Welcome{{3}, Spec()}, 0);
  Step(2, StreamClosed{2, kDown});
  EXPECT_EQ(Step(3, DeadlineExpired{}), "open 3 at 1");
}

// A host may be gone, and another one may lead.
TEST_F(MachineWithThreeAddresses, ThatOneHasASecondToWelcomeItAgain) {
  Step(0, Begin{});
  Step(0, StreamOpened{1});
  Receive(0, 1, protocol::Welcome{{3}, Spec()}, 0);
  Step(2, StreamClosed{1, kDown});
  EXPECT_EQ(Step(3, DeadlineExpired{}), "open 2 at 0");
  EXPECT_EQ(Step(3.9, DeadlineExpired{}), "");
  EXPECT_EQ(Step(4, DeadlineExpired{}), "close 2");
  EXPECT_EQ(Step(5, DeadlineExpired{}), "open 3 at 1");
  EXPECT_EQ(Step(9.9, DeadlineExpired{}), "");
  EXPECT_EQ(Step(10, DeadlineExpired{}), "close 3");
}

TEST_F(MachineWithThreeAddresses, GivesUpACoordinatorThatDoesNotAnswer) {
  Step(0, Begin{});
  Step(0, StreamOpened{1});
  EXPECT_EQ(Step(4.9, DeadlineExpired{}), "");
  EXPECT_EQ(Step(5, DeadlineExpired{}), "close 1");
  EXPECT_EQ(Step(6, DeadlineExpired{}), "open 2 at 1");
}

// gRPC writes a line to standard error each time.
TEST_F(MachineTest, ACertificateThatIsRefusedIsSaidOnceAndTriedEachSecond) {
  const absl::Status refused = absl::UnavailableError(
      "failed to connect to all addresses; last error: UNKNOWN: Ssl handshake "
      "failed: SSL_ERROR_SSL: certificate verify failed");
  Step(0, Begin{});
  EXPECT_THAT(Step(0, StreamClosed{1, refused}),
              AllOf(HasSubstr("warn: "), HasSubstr("certificate verify")));
  EXPECT_EQ(Step(0.9, DeadlineExpired{}), "");
  EXPECT_EQ(Step(1, DeadlineExpired{}), "open 2 at 0");
  EXPECT_EQ(Step(1, StreamClosed{2, refused}), "");
  Step(2, DeadlineExpired{});
  Step(2, StreamOpened{3});
  Receive(2, 3, protocol::Welcome{{3}, Spec()}, 0);
  EXPECT_THAT(Step(3, StreamClosed{3, refused}), HasSubstr("warn: "));
}

TEST_F(MachineTest, WaitsLongerEachTimeAndNeverLongerThanTheMaximum) {
  absl::Time now = At(0);
  uint64_t stream = 0;
  machine_->Step(now, Begin{});
  for (const int longest : {50, 100, 200, 300, 300, 300}) {
    machine_->Step(now, StreamClosed{++stream, kDown});
    const absl::Duration wait = machine_->NextWake() - now;
    EXPECT_LE(wait, absl::Milliseconds(longest));
    EXPECT_GE(wait, absl::Milliseconds(longest) / 2);
    now += wait;
    EXPECT_THAT(Describe(machine_->Step(now, DeadlineExpired{})),
                HasSubstr("open"));
  }
}

TEST_F(MachineTest, FailsIfNoCoordinatorEverAnswers) {
  Step(0, Begin{});
  Step(1, StreamClosed{1, kDown});
  Step(29, DeadlineExpired{});
  EXPECT_EQ(Step(30, DeadlineExpired{}), "close 2");
  EXPECT_EQ(view().phase, SessionPhase::kFailed);
  EXPECT_EQ(view().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(view().status.message(), HasSubstr("host:0"));
  EXPECT_THAT(view().status.message(), HasSubstr("connection refused"));
  EXPECT_EQ(machine_->NextWake(), absl::InfiniteFuture());
}

TEST_F(MachineTest, FailsIfTheCoordinatorGoesForGoodWhileItIsNeeded) {
  Formed();
  Step(100, StreamClosed{1, kDown});
  Step(129, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kFormed);
  Step(130, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kFailed);
}

TEST_F(MachineTest, RunsOnWithoutACoordinator) {
  Running();
  for (uint64_t stream = 1; stream < 100; ++stream) {
    const double now = 100 + static_cast<double>(stream);
    Step(now, StreamClosed{stream, kDown});
    Step(now + 0.5, DeadlineExpired{});
  }
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, FailsAtOnceWhenTryingAgainCannotHelp) {
  Step(0, Begin{});
  Step(0, StreamClosed{1, absl::ResourceExhaustedError("message too large")});
  EXPECT_EQ(view().phase, SessionPhase::kFailed);
  EXPECT_EQ(view().status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MachineTest, AProxyThatMisbehavesDoesNotStopTraining) {
  Running();
  Step(1, StreamClosed{1, absl::UnimplementedError("what?")});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_EQ(Step(2, DeadlineExpired{}), "open 2 at 0");
}

}  // namespace
}  // namespace lockstep::session

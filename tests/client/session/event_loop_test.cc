#include "client/session/event_loop.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/manual_clock.h"

namespace lockstep::session {
namespace {

using protocol::CauseKind;

// The only worker of a job, on a manual clock.
class EventLoopTest : public testing::Test {
 protected:
  EventLoopTest() {
    auto channel = factory_->Make("host:1");
    channels_.push_back(*std::move(channel));
    event_loop_ =
        std::make_unique<EventLoop>(MachineOptions{.job = {"job"},
                                                   .worker = {"a"},
                                                   .incarnation = 7,
                                                   .addresses = {"host:1"}},
                                    std::move(channels_), &clock_);
  }

  void Post(FakeStream& stream, protocol::ToWorkerBody body) {
    stream.Post({{"job"}, {1}, {1}, std::move(body)});
  }

  // Runs the session until the epoch is formed; returns its stream.
  std::shared_ptr<FakeStream> Form() {
    auto stream = server_.Next<protocol::Hello>().first;
    Post(*stream, protocol::Welcome{{1}, {.name = "job"}});
    Post(*stream, protocol::EpochFormed{0, {{{"a"}, {1}, {}}}});
    event_loop_->Await(
        [](const View& view) { return view.phase == SessionPhase::kFormed; });
    return stream;
  }

  void End(FakeStream& stream) {
    Post(stream, protocol::EpochEnded{{CauseKind::kLeft, {}, "b left"}});
  }

  ManualClock clock_;
  PlayedServer server_;
  std::unique_ptr<ChannelFactory> factory_ = MakeFakeChannels(&server_);
  std::vector<std::unique_ptr<ControlChannel>> channels_;
  std::unique_ptr<EventLoop> event_loop_;
};

TEST_F(EventLoopTest, PublishesWhatTheMachineLearns) {
  auto stream = Form();
  EXPECT_EQ(event_loop_->view()->epoch, EpochId{1});
  EXPECT_TRUE(event_loop_->view()->connected);
}

TEST_F(EventLoopTest, WaitsNoLongerThanToTheDeadlineOfItsClock) {
  const absl::Time deadline = clock_.Now() + absl::Seconds(3);
  std::atomic<bool> waited = false;
  std::thread waiter([&] {
    event_loop_->Await([](const View&) { return false; }, deadline);
    waited = true;
  });
  clock_.Advance(absl::Seconds(2));
  EXPECT_FALSE(waited);
  clock_.Advance(absl::Seconds(1));
  waiter.join();
}

TEST_F(EventLoopTest, CallsEveryWatchOnceWhenTheEpochEnds) {
  auto stream = Form();
  std::atomic<int> early = 0;
  absl::Status why;
  event_loop_->AddWatch([&](const absl::Status& status) {
    why = status;
    ++early;
  });
  End(*stream);
  event_loop_->Await(IsOver);
  std::atomic<int> late = 0;
  event_loop_->AddWatch([&](const absl::Status&) {
    ++late;
    event_loop_->Notify();
  });
  event_loop_->Await([&](const View&) { return late > 0; });
  EXPECT_EQ(early, 1);
  EXPECT_EQ(why, absl::AbortedError("b left"));
}

TEST_F(EventLoopTest, DoesNotCallARemovedWatch) {
  auto stream = Form();
  const uint64_t removed = event_loop_->AddWatch(
      [](const absl::Status&) { FAIL() << "it was removed"; });
  event_loop_->RemoveWatch(removed);
  std::atomic<bool> called = false;
  event_loop_->AddWatch([&](const absl::Status&) {
    called = true;
    event_loop_->Notify();
  });
  End(*stream);
  event_loop_->Await([&](const View&) { return called.load(); });
}

TEST_F(EventLoopTest, PullsProgressOnceAnInterval) {
  auto stream = Form();
  std::atomic<uint64_t> pulls = 0;
  event_loop_->SetProgressSource([&] {
    protocol::Progress progress{.position = {++pulls}};
    event_loop_->Notify();
    return progress;
  });
  for (uint64_t pull = 1; pull <= 5; ++pull) {
    event_loop_->Await([&](const View&) { return pulls == pull; });
    // Wait for a message sent after the pull: until then, nothing else is
    // pulled.
    Post(*stream, protocol::PlanReady{{pull}, "abc"});
    event_loop_->Await(
        [&](const View& view) { return view.revision.value == pull; });
    EXPECT_EQ(pulls, pull);
    clock_.Advance(absl::Milliseconds(100));
  }
  event_loop_->SetProgressSource(nullptr);
}

// A rank may pass many steps between two pulls.
TEST_F(EventLoopTest, AFailureIsToldWithTheStepInWhichItHappened) {
  auto stream = Form();
  std::atomic<uint64_t> step = 0;
  std::atomic<int> pulls = 0;
  event_loop_->SetProgressSource([&] {
    ++pulls;
    event_loop_->Notify();
    return protocol::Progress{.position = {step}};
  });
  event_loop_->Await([&](const View&) { return pulls == 1; });
  step = 5;
  event_loop_->Post(
      FailLocally{{0, "loader", absl::StatusCode::kInternal, "disk"}});
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.step, 5u);
  EXPECT_THAT(event_loop_->view()->status.message(),
              testing::HasSubstr("in step 5"));
  event_loop_->SetProgressSource(nullptr);
}

TEST_F(EventLoopTest,
       AFailureBeforeTheFirstStepIsOfTheStepThatTheEpochBeginsAt) {
  auto stream = server_.Next<protocol::Hello>().first;
  Post(*stream, protocol::Welcome{{1}, {.name = "job"}});
  protocol::EpochFormed formed{0, {{{"a"}, {1}, {}}}};
  formed.first_step = 40;
  Post(*stream, std::move(formed));
  event_loop_->Await(
      [](const View& view) { return view.phase == SessionPhase::kFormed; });
  event_loop_->Post(
      FailLocally{{0, "Connect", absl::StatusCode::kInternal, "refused"}});
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.step, 40u);
}

TEST_F(EventLoopTest, TellsTheListenerWhatAnOperatorWants) {
  auto stream = Form();
  std::atomic<uint64_t> heard{0};
  Post(*stream, protocol::DesiredCommands{{Command::kPause}, "", 5});
  event_loop_->Await([](const View& view) { return view.wanted.number == 5; });
  event_loop_->SetViewListener([&](const View& view) {
    heard = view.wanted.number;
    event_loop_->Notify();
  });
  event_loop_->Await([&](const View&) { return heard == 5; });  // at once
  Post(*stream, protocol::DesiredCommands{.number = 6});
  event_loop_->Await([&](const View&) { return heard == 6; });
  event_loop_->SetViewListener(nullptr);
  Post(*stream, protocol::DesiredCommands{.number = 7});
  event_loop_->Await([](const View& view) { return view.wanted.number == 7; });
  EXPECT_EQ(heard, 6u);
}

TEST_F(EventLoopTest, ComesBackAfterALostStream) {
  auto stream = Form();
  stream->Close(absl::UnavailableError("cut"));
  event_loop_->Await([](const View& view) { return !view.connected; });
  clock_.Advance(absl::Seconds(1));
  auto [second, hello] = server_.Next<protocol::Hello>();
  EXPECT_EQ(hello.generation, Generation{1});
  EXPECT_EQ(hello.resume->epoch, EpochId{1});
  Post(*second, protocol::Welcome{{1}, {.name = "job"}, true});
  event_loop_->Await([](const View& view) { return view.connected; });
}

TEST_F(EventLoopTest, CanBeDestroyedAtAnyMoment) {
  server_.Next<protocol::Hello>();
  event_loop_.reset();  // its stream is open, without a Welcome
}

TEST_F(EventLoopTest, CanBeDestroyedWhileItWaitsToTryAgain) {
  auto stream = Form();
  stream->Close(absl::UnavailableError("cut"));
  event_loop_->Await([](const View& view) { return !view.connected; });
  event_loop_.reset();
}

}  // namespace
}  // namespace lockstep::session

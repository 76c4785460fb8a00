// The public API of a session with a scripted coordinator.

#include "lockstep/session.h"

#include "client/transport/failed_peer.h"
#include "tests/client/session/played_session.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

using SessionTest = PlayedSession;

TEST_F(SessionTest, KnowsItsPlaceOnceItHasJoined) {
  Join();
  EXPECT_EQ(session_->rank(), 0);
  EXPECT_EQ(session_->world_size(), 1);
  EXPECT_EQ(session_->epoch(), 1u);
  EXPECT_EQ(session_->generation(), 1u);
  EXPECT_EQ(session_->worker(), "a");
  EXPECT_EQ(session_->spec(), Spec());
  EXPECT_TRUE(session_->status().ok());
}

TEST_F(SessionTest, JoinReturnsWhyItWasRefused) {
  auto joining = JoinAsync();
  stream_ = server_.Next<protocol::Hello>().first;
  Post(protocol::Refused{absl::StatusCode::kPermissionDenied, "the token"});
  EXPECT_EQ(joining.get().status(), absl::PermissionDeniedError("the token"));
}

TEST_F(SessionTest, JoinReturnsWhoWasMissing) {
  auto joining = JoinAsync();
  Welcome();
  Post(protocol::EpochEnded{
      {protocol::CauseKind::kJoinDeadline, {{"b"}}, "b is missing"}, true});
  EXPECT_EQ(joining.get().status(),
            absl::DeadlineExceededError("b is missing"));
}

TEST_F(SessionTest, JoinFailsWhenNobodyAnswers) {
  auto clock = std::make_shared<ManualClock>();
  clock_ = clock;
  server_.SetAccept(absl::UnavailableError("connection refused"));
  auto joining = JoinAsync({.addresses = {"host:1", "host:2"},
                            .connect_timeout = absl::Seconds(30)});
  const absl::Status status =
      PassTimeUntil(std::move(joining), *clock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("host:1, host:2"));
  EXPECT_THAT(status.message(), HasSubstr("connection refused"));
}

TEST_F(SessionTest, JoinRefusesAMalformedAddress) {
  EXPECT_EQ(JoinAsync({.addresses = {"malformed"}}).get().status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, AJobThatItCannotTakePartInIsLeft) {
  auto joining = Async([this] {
    auto parts = Parts();
    parts.make_transport = [](const JobSpec& spec) {
      return absl::InvalidArgumentError("no transport " + spec.transport);
    };
    return Session::Impl::Join(
        {.addresses = {"host:1"}, .job = "job", .worker = "a"},
        std::move(parts));
  });
  Welcome();
  Post(protocol::EpochFormed{0, {{{"a"}, {1}, {}}}});
  const auto leave = server_.Next<protocol::Leave>().second;
  EXPECT_FALSE(leave.clean);
  EXPECT_THAT(leave.reason, HasSubstr("no transport auto"));
  Post(protocol::Left{});
  EXPECT_EQ(joining.get().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, StatusSaysWhyTheEpochEnded) {
  Join();
  std::promise<absl::Status> told;
  session_->impl().AddWatch(
      [&told](const absl::Status& why) { told.set_value(why); });
  EndEpoch("z died on host-z");
  EXPECT_EQ(told.get_future().get(), absl::AbortedError("z died on host-z"));
  EXPECT_EQ(session_->status(), absl::AbortedError("z died on host-z"));
}

TEST_F(SessionTest, AFailureOfItsOwnIsItsStatusAtOnce) {
  Join();
  session_->ReportFailure("Train", absl::InternalError("loss is NaN"));
  EXPECT_THAT(session_->status().message(), HasSubstr("loss is NaN"));
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.call, "Train");
}

TEST_F(SessionTest, ExplainReturnsTheCauseBehindADataPlaneError) {
  Join();
  auto explaining = Async([this] {
    return session_->impl().Explain("Finish", absl::UnavailableError("reset"));
  });
  EndEpoch("z died on host-z");
  EXPECT_EQ(explaining.get(), absl::AbortedError("z died on host-z"));
}

TEST_F(SessionTest, ExplainEndsTheEpochIfTheCoordinatorDoesNot) {
  auto clock = std::make_shared<ManualClock>();
  clock_ = clock;
  Join();
  const absl::Status why =
      PassTimeUntil(Async([this] {
                      return session_->impl().Explain(
                          "Finish", absl::UnavailableError("reset by rank 3"));
                    }),
                    *clock);
  EXPECT_EQ(why.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(why.message(), HasSubstr("reset by rank 3"));
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.call, "Finish");
}

// The other ranks get the coordinator's message; the rank that detected the
// death waits for it, even with a manual clock.
TEST_F(SessionTest, ADeathSeenHereIsToldInTheCoordinatorsWords) {
  clock_ = std::make_shared<ManualClock>();
  Join();
  const absl::Status seen = transport::Proven(transport::WithFailedPeer(
      absl::UnavailableError("its process has ended"), 0));
  session_->impl().ReportPeerFailure(std::vector<int>{0}, seen);
  auto explaining =
      Async([&] { return session_->impl().Explain("Finish", seen); });
  server_.Next<protocol::Evidence>();
  EndEpoch("z died on host-z");
  EXPECT_EQ(explaining.get(), absl::AbortedError("z died on host-z"));
}

TEST_F(SessionTest, ADeathSeenHereIsToldThoughTheCoordinatorIsSilent) {
  auto clock = std::make_shared<ManualClock>();
  clock_ = clock;
  Join();
  const absl::Status seen = transport::Proven(transport::WithFailedPeer(
      absl::UnavailableError("its process has ended"), 0));
  session_->impl().ReportPeerFailure(std::vector<int>{0}, seen);
  const absl::Status why = PassTimeUntil(
      Async([&] { return session_->impl().Explain("Finish", seen); }), *clock);
  EXPECT_EQ(why.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(why.message(), HasSubstr("its process has ended"));
}

// A peer is silent, and so is the coordinator.
TEST_F(SessionTest, AWorkerThatHearsNobodyFencesItself) {
  auto clock = std::make_shared<ManualClock>();
  clock_ = clock;
  Join();
  server_.SetAccept(absl::UnavailableError("no route"));
  stream_->Close(absl::UnavailableError("keepalive"));
  const absl::Status why = PassTimeUntil(
      Async([this] {
        return session_->impl().Explain(
            "Finish", transport::WithFailedPeer(
                          absl::DeadlineExceededError("rank 3 is silent"), 0));
      }),
      *clock);
  EXPECT_EQ(why.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(why.message(), testing::AllOf(HasSubstr("rank 3 is silent"),
                                            HasSubstr("has fenced itself")));
  EXPECT_EQ(session_->status(), why);
  // No other thread advances the clock during Leave.
  PassTimeUntil(Async([this] { return session_->Leave(); }), *clock)
      .IgnoreError();
}

// No time needs to pass: the coordinator cannot add anything.
TEST_F(SessionTest, ALimitOfItsOwnEndsTheEpochAtOnce) {
  clock_ = std::make_shared<ManualClock>();
  Join();
  const absl::Status why = session_->impl().Explain(
      "Connect", absl::ResourceExhaustedError("no more open files"));
  EXPECT_EQ(why.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(why.message(), HasSubstr("no more open files"));
  EXPECT_EQ(server_.Next<protocol::LocalFailure>().second.call, "Connect");
}

TEST_F(SessionTest, AccusesThePeerThatIsSilent) {
  Join();
  session_->impl().ReportPeerFailure(
      std::vector<int>{0},
      transport::WithFailedPeer(absl::DeadlineExceededError("silent"), 0));
  EXPECT_EQ(server_.Next<protocol::Evidence>().second.kind,
            protocol::EvidenceKind::kPeerSilent);
}

TEST_F(SessionTest, AccusesThePeerThatAnErrorBlames) {
  Join();
  session_->impl().ReportPeerFailure(
      std::vector<int>{0},
      transport::WithFailedPeer(absl::UnavailableError("reset"), 0));
  const auto evidence = server_.Next<protocol::Evidence>().second;
  EXPECT_EQ(evidence.subject, WorkerName{"a"});
  EXPECT_EQ(evidence.kind, protocol::EvidenceKind::kPeerReset);
}

// --- The processes of other workers -----------------------------------------

// What the session asks of its watch, and news that the test makes up.
class FakeProcessWatch final : public transport::ProcessWatch {
 public:
  struct Script {
    std::vector<std::string> addresses;
    OnNews on_news;
    bool done = false;
  };
  explicit FakeProcessWatch(Script* script) : script_(script) {}
  const std::string& address() const override { return address_; }
  void Watch(const std::vector<std::string>& addresses,
             OnNews on_news) override {
    script_->addresses = addresses;
    script_->on_news = std::move(on_news);
  }
  void SetDone() override { script_->done = true; }

 private:
  const std::string address_ = "here a";
  Script* const script_;
};

// Rank 0 of three, of which rank 2 runs under another kernel.
class WatchedSessionTest : public SessionTest {
 protected:
  static JobSpec ThreeRanks() {
    return {.name = "job", .mesh = {{{"data", 3}}}};
  }
  void SetUp() override {
    process_watch_ = std::make_unique<FakeProcessWatch>(&watch_);
    auto joining = JoinAsync();
    auto [stream, hello] = server_.Next<protocol::Hello>();
    stream_ = stream;
    EXPECT_EQ(hello.watch_address, "here a");
    Post(protocol::Welcome{{1}, ThreeRanks()});
    Post(protocol::EpochFormed{
        0,
        {{{"a"}, {1}, {"host-a", 11, "boot"}, "here a"},
         {{"b"}, {4}, {"host-a", 12, "boot"}, "here b"},
         {{"c"}, {1}, {"host-b", 11, "other"}, "here c"}}});
    session_ = *joining.get();
  }

  FakeProcessWatch::Script watch_;
};

TEST_F(WatchedSessionTest, WatchesTheMembersUnderItsKernel) {
  EXPECT_EQ(watch_.addresses,
            (std::vector<std::string>{"here a", "here b", ""}));
}

TEST_F(WatchedSessionTest, TheEndOfAProcessIsProofAndEndsTheEpochHere) {
  watch_.on_news(1, transport::ProcessNews::kExited, absl::OkStatus());
  const auto evidence = server_.Next<protocol::Evidence>().second;
  EXPECT_EQ(evidence.subject, WorkerName{"b"});
  EXPECT_EQ(evidence.generation, Generation{4});
  EXPECT_EQ(evidence.kind, protocol::EvidenceKind::kExited);
  EXPECT_EQ(evidence.process, (protocol::ProcessInfo{"host-a", 12, "boot"}));
  EXPECT_THAT(session_->status().message(), HasSubstr("rank 1 (b) died"));
}

TEST_F(WatchedSessionTest, AClosedSocketIsAHint) {
  watch_.on_news(1, transport::ProcessNews::kSocketClosed,
                 absl::NotFoundError("nothing listens"));
  const auto evidence = server_.Next<protocol::Evidence>().second;
  EXPECT_EQ(evidence.kind, protocol::EvidenceKind::kSocketClosed);
  EXPECT_EQ(evidence.generation, Generation{4});
  EXPECT_TRUE(session_->status().ok());
}

TEST_F(WatchedSessionTest, OnlyACleanLeaveMakesTheEndOfItsProcessNoNews) {
  watch_.on_news(1, transport::ProcessNews::kWatched, absl::OkStatus());
  auto leaving = Async([this] { return session_->Leave(); });
  server_.Next<protocol::Leave>();
  EXPECT_TRUE(watch_.done);
  Post(protocol::Left{});
  EXPECT_TRUE(leaving.get().ok());
}

TEST_F(WatchedSessionTest, ADestroyedSessionIsNotDone) {
  auto ending = Async([this] { session_.reset(); });
  server_.Next<protocol::Leave>();
  EXPECT_FALSE(watch_.done);
  Post(protocol::Left{});
  ending.get();
}

// A transport has only its group's ranks: its "rank 1" is another rank of the
// job.
TEST_F(SessionTest, AccusesAPeerOfAGroupByItsRankInTheJob) {
  Join();
  session_->impl().ReportPeerFailure(
      std::vector<int>{3, 0},
      transport::WithFailedPeer(absl::UnavailableError("rank 1 left the group"),
                                1));
  const auto evidence = server_.Next<protocol::Evidence>().second;
  EXPECT_EQ(evidence.subject, WorkerName{"a"});
  EXPECT_EQ(evidence.detail,
            "rank 1 left the group (rank 1 of this group is rank 0, a)");
}

TEST_F(SessionTest, AccusesNobodyIfNobodyIsBlamed) {
  Join();
  session_->impl().ReportPeerFailure(std::vector<int>{0},
                                     absl::UnavailableError("reset"));
  session_->ReportFailure("x", absl::InternalError("next"));
  server_.Next<protocol::LocalFailure>();  // with no message before it
}

TEST_F(SessionTest, OfSeveralBusyScopesTheNewestIsTold) {
  Join();
  const auto reason = [this] {
    return server_.Next<protocol::Busy>().second.reason;
  };
  auto loading = session_->Busy("loading", absl::Minutes(1));
  EXPECT_EQ(reason(), "loading");
  {
    auto compiling = session_->Busy("compiling", absl::Minutes(1));
    EXPECT_EQ(reason(), "compiling");
    auto moved = std::move(compiling);
  }
  EXPECT_EQ(reason(), "loading");
}

TEST_F(SessionTest, LeavesWithTheStepsThatItsLanesReport) {
  Join();
  session_->impl().SetProgressSource([] {
    return protocol::Progress{.position = {20, protocol::Phase::kIdle}};
  });
  auto leaving = Async([this] { return session_->Leave(); });
  const auto leave = server_.Next<protocol::Leave>().second;
  EXPECT_TRUE(leave.clean);
  EXPECT_EQ(leave.steps, 20u);
  Post(protocol::Left{});
  EXPECT_TRUE(leaving.get().ok());
  EXPECT_EQ(session_->status().code(), absl::StatusCode::kFailedPrecondition);
}

// A program that ignores an error in its loop still gets it from Leave.
TEST_F(SessionTest, LeaveSaysWhyTheEpochEndedBeforeTheLastStep) {
  Join();
  EndEpoch("z died on host-z");
  ASSERT_EQ(session_->impl().Explain("Finish", absl::AbortedError("x")),
            absl::AbortedError("z died on host-z"));
  auto leaving = Async([this] { return session_->Leave(); });
  AnswerLeave();
  EXPECT_EQ(leaving.get(), absl::AbortedError("z died on host-z"));
  EXPECT_EQ(session_->Leave(), absl::AbortedError("z died on host-z"));
}

TEST_F(SessionTest, LeaveSaysThatTheJobWasStopped) {
  Join();
  Post(protocol::EpochEnded{{protocol::CauseKind::kStopped, {}, "maintenance"},
                            /*final=*/true});
  session_->impl().Explain("Finish", absl::AbortedError("x")).IgnoreError();
  EXPECT_EQ(session_->Leave(), absl::CancelledError("maintenance"));
}

TEST_F(SessionTest, LeavesInOrderThoughTheEpochEndedAfterItsLastStep) {
  Join();
  session_->impl().NoteLastStep(std::nullopt);  // out of data
  EndEpoch("z died on host-z");
  session_->impl().Explain("Finish", absl::AbortedError("x")).IgnoreError();
  auto leaving = Async([this] { return session_->Leave(); });
  AnswerLeave();
  EXPECT_EQ(leaving.get(), absl::OkStatus());
}

TEST_F(SessionTest, LeavesAllTheSameWithoutACoordinator) {
  auto clock = std::make_shared<ManualClock>();
  clock_ = clock;
  Join();
  server_.SetAccept(absl::UnavailableError("connection refused"));
  stream_->Close(absl::UnavailableError("killed"));
  const absl::Status left =
      PassTimeUntil(Async([this] { return session_->Leave(); }), *clock);
  EXPECT_EQ(left.code(), absl::StatusCode::kUnavailable);
}

TEST_F(SessionTest, ItsDestructorLeavesUncleanly) {
  Join();
  auto destroying = Async([this] { session_.reset(); });
  EXPECT_FALSE(server_.Next<protocol::Leave>().second.clean);
  Post(protocol::Left{});
  destroying.get();
}

}  // namespace
}  // namespace lockstep::session

#include "client/session/machine.h"

#include <memory>
#include <string>

#include "plan/digest.h"
#include "tests/client/session/machine_fixture.h"

namespace lockstep::session {
namespace {

using protocol::CauseKind;
using testing::HasSubstr;

// --- From Hello to Start ----------------------------------------------------

TEST_F(MachineTest, SaysHelloAndLearnsWhoItIs) {
  EXPECT_EQ(Step(0, Begin{}), "open 1 at 0");
  EXPECT_EQ(Step(0, StreamOpened{1}), "send 1: hello gen 0");
  EXPECT_EQ(Receive(0, 1, protocol::Welcome{{3}, Spec()}, 0), "");
  EXPECT_TRUE(view().connected);
  EXPECT_EQ(view().generation, Generation{3});
  Receive(0, 1, protocol::EpochFormed{1, Members()});
  EXPECT_EQ(view().phase, SessionPhase::kFormed);
  EXPECT_EQ(view().rank, 1);
  EXPECT_EQ(view().epoch, EpochId{1});
}

TEST_F(MachineTest, GoesThroughAgreementToTheStart) {
  Formed();
  EXPECT_EQ(Step(0, RegisterAll{{{.index = 0}, {.index = 1, .last = true}}}),
            "send 1: chunk 0\nsend 1: chunk 1 last");
  Receive(0, 1, protocol::PlanReady{{1}, "abc"});
  EXPECT_EQ(view().phase, SessionPhase::kPlanned);
  EXPECT_EQ(Step(0, AcceptPlan{{1}, "abc"}), "send 1: ack abc");
  EXPECT_EQ(Step(0, OfferHandles{{{0, "mine"}}}), "send 1: publish 1");
  Receive(0, 1, protocol::GroupHandles{0, {"a", "mine"}});
  EXPECT_EQ(view().handles.at(0)[1], "mine");
  EXPECT_EQ(Step(0, DataPlaneConnected{}), "send 1: connected");
  Receive(0, 1, protocol::Start{});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, TakesRepeatedWordsAsOne) {
  Running();
  const uint64_t changes = machine_->changes();
  Receive(0, 1, protocol::EpochFormed{1, Members()});
  Receive(0, 1, protocol::PlanReady{{1}, "abc"});
  Receive(0, 1, protocol::GroupHandles{0, {"a", "mine"}});
  Receive(0, 1, protocol::Start{});
  EXPECT_EQ(machine_->changes(), changes);
}

TEST_F(MachineTest, DoesNotStartBeforeItIsConnectedItself) {
  Planned();
  Receive(0, 1, protocol::Start{});
  EXPECT_EQ(view().phase, SessionPhase::kPlanned);
}

TEST_F(MachineTest, OnePlanUnderTwoDigestsEndsTheEpoch) {
  Planned();
  Receive(0, 1, protocol::PlanReady{{1}, "xyz"});
  EXPECT_EQ(view().status.code(), absl::StatusCode::kInternal);
}

TEST_F(MachineTest, ARankOutsideTheWorldIsRefused) {
  Welcomed();
  Receive(0, 1, protocol::EpochFormed{2, Members()});
  EXPECT_EQ(view().phase, SessionPhase::kFailed);
}

// --- Later revisions --------------------------------------------------------

TEST_F(MachineTest, AnnouncesALaterRevisionAndSaysWhenItIsHeld) {
  Running();
  Receive(0, 1, protocol::PlanReady{{2}, "def"});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_EQ(view().revision, Revision{2});
  EXPECT_EQ(view().plan_digest, "def");
  Receive(0, 1, protocol::PlanReady{{1}, "abc"});  // repeated, late
  EXPECT_EQ(view().revision, Revision{2});
  EXPECT_EQ(Step(0, AcceptPlan{{2}, "def"}), "send 1: ack def");
}

TEST_F(MachineTest, AnswersOnceWhoAsksForAnOrder) {
  Running();
  EXPECT_EQ(Step(0, OfferOrder{{{2}, {0, 1}}}), "") << "nobody asked";
  Receive(0, 1, protocol::OrderWanted{{2}});
  EXPECT_EQ(view().order_wanted, Revision{2});
  EXPECT_EQ(Step(0, OfferOrder{{{3}, {0, 1}}}), "") << "for another";
  EXPECT_EQ(Step(0, OfferOrder{{{2}, {0, 1}}}), "send 1: order of 2");
  EXPECT_EQ(view().order_wanted, Revision{});
  EXPECT_EQ(Step(0, OfferOrder{{{2}, {0, 1}}}), "");
}

TEST_F(MachineTest, AnOrderIsAskedForAgainOnTheNextStream) {
  Running();
  Receive(0, 1, protocol::OrderWanted{{2}});
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  EXPECT_EQ(view().order_wanted, Revision{}) << "nobody would hear it";
  EXPECT_EQ(Step(1, OfferOrder{{{2}, {0, 1}}}), "");
}

// --- Large communicators -----------------------------------------------------

TEST_F(MachineTest, HandlesOfALargeCommunicatorAreHeardInPieces) {
  Planned();
  Receive(0, 1, protocol::GroupHandles{0, {"a"}, 0, /*more=*/true});
  EXPECT_TRUE(view().handles.empty());
  Receive(0, 1, protocol::GroupHandles{0, {"mine"}, 1});
  EXPECT_EQ(view().handles.at(0), (SharedList<std::string>{"a", "mine"}));
}

TEST_F(MachineTest, HandlesBeginAnewOnTheNextStream) {
  Planned();
  Receive(0, 1, protocol::GroupHandles{0, {"a"}, 0, /*more=*/true});
  Resume(1, 1);
  Receive(2, 2, protocol::GroupHandles{0, {"a"}, 0, /*more=*/true});
  Receive(2, 2, protocol::GroupHandles{0, {"mine"}, 1});
  EXPECT_EQ(view().handles.at(0), (SharedList<std::string>{"a", "mine"}));
}

TEST_F(MachineTest, HandlesThatDoNotFollowEndTheStream) {
  Planned();
  Receive(0, 1, protocol::GroupHandles{0, {"a"}, 0, /*more=*/true});
  EXPECT_THAT(Receive(0, 1, protocol::GroupHandles{0, {"mine"}, 2}),
              HasSubstr("close 1"));
  EXPECT_TRUE(view().handles.empty());
}

TEST_F(MachineTest, HandlesThatAreLargeAreOfferedInSeveralMessages) {
  Formed();
  Step(0, RegisterAll{{{.index = 0, .last = true}}});
  Receive(0, 1, protocol::PlanReady{{1}, "abc"});
  Step(0, AcceptPlan{{1}, "abc"});
  OfferHandles offer;
  for (int c = 0; c < 6; ++c) {
    offer.handles.push_back({c, std::string(64 << 10, 'h')});
  }
  EXPECT_EQ(Step(0, offer), "send 1: publish 3\nsend 1: publish 3");
  EXPECT_THAT(Resume(1, 1), HasSubstr("send 2: publish 3\nsend 2: publish 3"));
}

// --- Warnings ---------------------------------------------------------------

TEST_F(MachineTest, AWarningIsPrinted) {
  Running();
  EXPECT_EQ(Receive(0.1, 1, protocol::Warning{"no rank submits b"}),
            "warn: no rank submits b");
}

TEST_F(MachineTest, ValuesAreStatedAgainOnTheNextStream) {
  Running();
  EXPECT_EQ(Step(0, ReportValueDigests{{{0, 1}, {7, 8}}}),
            "send 1: values of 2");
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(1.3, DeadlineExpired{});
  Step(1.3, StreamOpened{2});
  EXPECT_THAT(Receive(1.3, 2, protocol::Welcome{{3}, Spec(), true}),
              testing::HasSubstr("send 2: values of 2"));
}

// Even right after the previous Progress.
TEST_F(MachineTest, LeavesNoWarningUnsaid) {
  Running();
  Step(0, MovedTo(1));
  protocol::Progress last = MovedTo(3).progress;
  last.unsubmitted_by_all = {1, {"b"}};
  EXPECT_EQ(Step(0.01, Moved{last}), "");
  EXPECT_EQ(Step(0.02, LeaveNow{{true, 3, ""}}),
            "send 1: progress step 3\nsend 1: leave clean after 3");
}

// --- A restarted coordinator ------------------------------------------------

AcceptPlan Accepts(uint64_t revision, const std::string& digest,
                   const std::string& bytes) {
  return {.revision = {revision},
          .digest = digest,
          .bytes = std::make_shared<const std::string>(bytes)};
}

TEST_F(MachineTest, GivesThePlanBackThatItHasAccepted) {
  Running();
  Step(0, Accepts(1, "abc", "seven b"));
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"abc"}),
            "send 1: part of plan abc: 7 bytes at 0 of 7");
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(1.5, DeadlineExpired{});
  Step(1.5, StreamOpened{2});
  EXPECT_EQ(Receive(1.5, 2, protocol::Welcome{{3}, Spec(), true}), "")
      << "nothing without a request";
  const Effects effects = machine_->Step(
      At(1.6),
      StreamMessage{2, {{"job"}, {1}, {1}, protocol::PlanWanted{"abc"}}});
  EXPECT_EQ(std::get<protocol::PlanPart>(
                std::get<SendOn>(effects.at(0)).message.body),
            (protocol::PlanPart{
                .digest = "abc", .total_bytes = 7, .data = "seven b"}));
}

TEST_F(MachineTest, GivesALargePlanBackInPartsThatAreInOrder) {
  Running();
  std::string plan(600'000, 'p');
  plan.front() = 'a';
  plan.back() = 'z';
  Step(0, Accepts(1, "abc", plan));
  const Effects effects = machine_->Step(
      At(1),
      StreamMessage{1, {{"job"}, {1}, {1}, protocol::PlanWanted{"abc"}}});
  ASSERT_EQ(effects.size(), 3u);
  std::string joined;
  for (const Effect& effect : effects) {
    const auto& part =
        std::get<protocol::PlanPart>(std::get<SendOn>(effect).message.body);
    EXPECT_EQ(part.offset, joined.size());
    EXPECT_EQ(part.total_bytes, plan.size());
    EXPECT_LE(part.data.size(), 512u << 10) << "the codec refuses more";
    joined += part.data;
  }
  EXPECT_EQ(joined, plan);
}

TEST_F(MachineTest, SaysThatItDoesNotHaveAPlan) {
  const std::string none = "send 1: part of plan abc: 0 bytes at 0 of 0";
  Running();
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"abc"}), none)
      << "its bytes were not kept";
  Step(1, Accepts(1, "abc", "bytes"));
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"abc"}, /*epoch=*/2), "");
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"def"}),
            "send 1: part of plan def: 0 bytes at 0 of 0");
  Receive(1, 1, protocol::PlanReady{{2}, "def"});
  Step(1, Accepts(2, "def", "later bytes"));
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"abc"}), none);
  EXPECT_EQ(Receive(1, 1, protocol::PlanWanted{"def"}),
            "send 1: part of plan def: 11 bytes at 0 of 11");
  HearEnd(2, 1, CauseKind::kLeft, "x");
  EXPECT_EQ(Receive(2, 1, protocol::PlanWanted{"def"}),
            "send 1: part of plan def: 0 bytes at 0 of 0");
}

TEST_F(MachineTest, RegistersAgainAfterTheStartOnlyOnRequest) {
  Running();
  EXPECT_EQ(Resume(1, 1), "") << "not without one";
  EXPECT_EQ(Receive(2, 2, protocol::RegistrationWanted{}),
            "send 2: chunk 0\nsend 2: chunk 1 last");
  EXPECT_EQ(Receive(2, 2, protocol::RegistrationWanted{}, /*epoch=*/2), "");
  HearEnd(2, 2, CauseKind::kLeft, "x");
  EXPECT_EQ(Receive(2, 2, protocol::RegistrationWanted{}), "");
}

// --- Lost streams -----------------------------------------------------------

TEST_F(MachineTest, KeepsItsPhaseWhenTheStreamIsLostAndResumes) {
  Running();
  Step(0.5, MovedTo(17));
  EXPECT_EQ(Step(1, StreamClosed{1, absl::UnavailableError("cut")}), "");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_FALSE(view().connected);
  EXPECT_EQ(Step(1.3, DeadlineExpired{}), "open 2 at 0");
  EXPECT_EQ(Step(1.3, StreamOpened{2}),
            "send 2: hello gen 3 epoch 1 plan 'abc' step 17");
  EXPECT_EQ(Receive(1.3, 2, protocol::Welcome{{3}, Spec(), true}),
            "send 2: progress step 17");
}

TEST_F(MachineTest, SaysTheSameHelloUntilItIsWelcomed) {
  Step(0, Begin{});
  const Effects first = machine_->Step(At(0), StreamOpened{1});
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(2, DeadlineExpired{});
  const Effects second = machine_->Step(At(2), StreamOpened{2});
  EXPECT_EQ(std::get<SendOn>(first[0]).message,
            std::get<SendOn>(second[0]).message);
  EXPECT_EQ(std::get<protocol::Hello>(std::get<SendOn>(first[0]).message.body)
                .incarnation,
            7u);
}

TEST_F(MachineTest, ProvesEachResumeWithTheNewestSecret) {
  Step(0, Begin{});
  Step(0, StreamOpened{1});
  const auto hello_after = [this](double seconds, uint64_t stream) {
    Step(seconds, StreamClosed{stream, absl::UnavailableError("cut")});
    Step(seconds + 0.5, DeadlineExpired{});
    const Effects effects =
        machine_->Step(At(seconds + 0.5), StreamOpened{stream + 1});
    return std::get<protocol::Hello>(std::get<SendOn>(effects[0]).message.body);
  };
  Receive(0, 1,
          protocol::Welcome{.generation = {3}, .spec = Spec(), .secret = "s"},
          0);
  EXPECT_EQ(hello_after(1, 1).secret, "s");
  Receive(1.5, 2,
          protocol::Welcome{.generation = {3}, .spec = Spec(), .resumed = true},
          0);
  EXPECT_EQ(hello_after(2, 2).secret, "s") << "an empty one changes nothing";
  Receive(2.5, 3,
          protocol::Welcome{.generation = {3}, .spec = Spec(), .secret = "t"},
          0);
  EXPECT_EQ(hello_after(3, 3).secret, "t");
}

// Sends everything that a coordinator without knowledge of the job needs.
TEST_F(MachineTest, StatesItsWholeEpochWhenItResumes) {
  Running();
  Receive(0, 1, protocol::DesiredCommands{{Command::kPause}, "", 5});
  const auto resume_after = [this](double seconds, uint64_t stream) {
    Step(seconds, StreamClosed{stream, absl::UnavailableError("cut")});
    Step(seconds + 0.5, DeadlineExpired{});
    const Effects effects =
        machine_->Step(At(seconds + 0.5), StreamOpened{stream + 1});
    return std::get<protocol::Hello>(std::get<SendOn>(effects[0]).message.body);
  };
  const protocol::Hello hello = resume_after(1, 1);
  EXPECT_EQ(hello.spec, Spec()) << "though the user gave none";
  EXPECT_EQ(hello.resume->epoch, EpochId{1});
  EXPECT_EQ(hello.resume->revision, Revision{1});
  EXPECT_EQ(hello.resume->plan_digest, "abc");
  EXPECT_TRUE(hello.resume->started);
  EXPECT_EQ(hello.resume->rank, 1);
  EXPECT_EQ(hello.resume->members_digest, plan::DigestOf(Members().items()));
  EXPECT_EQ(hello.resume->wanted.number, 5u);
  EXPECT_FALSE(hello.resume->ended);
  EXPECT_FALSE(hello.resume->leaving);
  Step(1.6, LeaveNow{{true, 20, ""}});
  EXPECT_TRUE(resume_after(1.7, 2).resume->leaving);
}

TEST_F(MachineTest, RankZeroStatesTheOrderOfALaterRevision) {
  Welcomed();
  Receive(0, 1, protocol::EpochFormed{0, {Members()[1], Members()[0]}});
  Receive(0, 1, protocol::PlanReady{{1}, "abc"});
  Step(0, AcceptPlan{{1}, "abc"});
  Receive(0, 1, protocol::PlanReady{{2}, "def"});
  Step(0, AcceptPlan{{2}, "def", {1, 0}});
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(1.5, DeadlineExpired{});
  const Effects effects = machine_->Step(At(1.5), StreamOpened{2});
  const auto& resume =
      std::get<protocol::Hello>(std::get<SendOn>(effects[0]).message.body)
          .resume;
  EXPECT_EQ(resume->revision, Revision{2});
  EXPECT_EQ(resume->observed_order, (std::vector<uint32_t>{1, 0}));
}

TEST_F(MachineTest, SaysThatItsEpochIsOverWhenItResumes) {
  Running();
  HearEnd(0.1, 1, CauseKind::kLeft, "x");
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(1.5, DeadlineExpired{});
  const Effects effects = machine_->Step(At(1.5), StreamOpened{2});
  EXPECT_TRUE(
      std::get<protocol::Hello>(std::get<SendOn>(effects[0]).message.body)
          .resume->ended);
}

TEST_F(MachineTest, StatesAgainWhatMayHaveBeenLost) {
  Planned();
  Step(0, DataPlaneConnected{});
  EXPECT_EQ(Resume(1, 1),
            "send 2: chunk 0\nsend 2: chunk 1 last\nsend 2: ack abc\n"
            "send 2: publish 1\nsend 2: connected");
}

TEST_F(MachineTest, KeepsAStatementForTheNextStreamWhileThereIsNone) {
  Formed();
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  EXPECT_EQ(Step(1, RegisterAll{{{.index = 0, .last = true}}}), "");
  Step(2, DeadlineExpired{});
  Step(2, StreamOpened{2});
  EXPECT_EQ(Receive(2, 2, protocol::Welcome{{3}, Spec(), true}),
            "send 2: chunk 0 last");
}

TEST_F(MachineTest, IgnoresWhatAFormerStreamStillSays) {
  Running();
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(2, DeadlineExpired{});
  EXPECT_EQ(HearEnd(2, 1, CauseKind::kLeft, "old"), "");
  EXPECT_EQ(Step(2, StreamOpened{1}), "");
  EXPECT_EQ(Step(2, StreamClosed{1, absl::UnavailableError("again")}), "");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, HangsUpOnALeaderOfALowerTerm) {
  Running();
  Receive(1, 1, protocol::Start{}, 1, /*term=*/5);
  EXPECT_EQ(Receive(1, 1, protocol::EpochEnded{}, 1, /*term=*/4), "close 1");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, IgnoresWordsForAnotherJobOrAFormerEpoch) {
  Running();
  Step(0, StreamMessage{1, {{"other"}, {1}, {1}, protocol::EpochEnded{}}});
  HearEnd(0, 1, CauseKind::kLeft, "long ago", /*final=*/false, /*epoch=*/0);
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, AnEpochThatTheCoordinatorForgotIsOver) {
  Running();
  Reconnect(1, 1);
  Receive(2, 2, protocol::Welcome{{1}, Spec(), false}, 0);
  EXPECT_EQ(view().phase, SessionPhase::kEnded);
  EXPECT_EQ(view().status.code(), absl::StatusCode::kAborted);
}

TEST_F(MachineTest, AnEndedEpochThatNoCoordinatorKnowsIsForgotten) {
  Running();
  const absl::Status unknown = absl::NotFoundError("epoch 1 is unknown");
  Step(1, StreamClosed{1, unknown});
  EXPECT_TRUE(view().forgotten.ok()) << "it trains, and may be adopted";
  Step(1.5, DeadlineExpired{});
  Step(1.5, StreamOpened{2});
  Receive(1.5, 2, protocol::Welcome{{3}, Spec(), true});
  HearEnd(2, 2, CauseKind::kProcessDied, "a died");
  Step(3, StreamClosed{2, absl::UnavailableError("cut")});
  EXPECT_TRUE(view().forgotten.ok()) << "the coordinator may come back";
  Step(3.5, DeadlineExpired{});
  Step(3.5, StreamOpened{3});
  Step(3.5, StreamClosed{3, unknown});
  EXPECT_EQ(view().forgotten, unknown);
  EXPECT_EQ(view().status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Step(9, DeadlineExpired{}), "") << "it opens no other stream";
}

TEST_F(MachineTest, AnotherEpochMeansThatOursIsOver) {
  Running();
  Receive(1, 1, protocol::EpochFormed{0, Members()}, 2);
  EXPECT_EQ(view().phase, SessionPhase::kEnded);
  EXPECT_EQ(view().epoch, EpochId{1});
}

// --- Ends of epochs and sessions --------------------------------------------

TEST_F(MachineTest, FailsWithTheReasonWhenItIsRefused) {
  Step(0, Begin{});
  Step(0, StreamOpened{1});
  const protocol::Refused refused{absl::StatusCode::kAlreadyExists,
                                  "b is held by pid 5 on x"};
  EXPECT_EQ(Receive(0, 1, refused, 0), "close 1");
  EXPECT_EQ(view().phase, SessionPhase::kFailed);
  EXPECT_EQ(view().status, absl::AlreadyExistsError("b is held by pid 5 on x"));
}

TEST_F(MachineTest, TheCauseOfAnEndDecidesTheCode) {
  const std::pair<CauseKind, absl::StatusCode> cases[] = {
      {CauseKind::kProcessDied, absl::StatusCode::kAborted},
      {CauseKind::kLeaseExpired, absl::StatusCode::kAborted},
      {CauseKind::kStreamLost, absl::StatusCode::kAborted},
      {CauseKind::kLocalFailure, absl::StatusCode::kAborted},
      {CauseKind::kMismatch, absl::StatusCode::kInvalidArgument},
      {CauseKind::kJoinDeadline, absl::StatusCode::kDeadlineExceeded},
      {CauseKind::kLeft, absl::StatusCode::kAborted},
      {CauseKind::kStopped, absl::StatusCode::kCancelled},
      {CauseKind::kReplaced, absl::StatusCode::kAborted},
      {CauseKind::kConnectFailed, absl::StatusCode::kUnavailable},
      {CauseKind::kLink, absl::StatusCode::kAborted},
  };
  for (const auto& [kind, code] : cases) {
    Restart();
    Running();
    HearEnd(1, 1, kind, "a is why");
    EXPECT_EQ(view().phase, SessionPhase::kEnded);
    EXPECT_EQ(view().status, absl::Status(code, "a is why"));
    EXPECT_EQ(view().cause.kind, kind);
  }
}

TEST_F(MachineTest, AJobThatEndsBeforeAnEpochFormedSaysWhoIsMissing) {
  Welcomed();
  HearEnd(1, 1, CauseKind::kJoinDeadline, "a is missing", /*final=*/true, 0);
  EXPECT_EQ(view().status, absl::DeadlineExceededError("a is missing"));
  EXPECT_TRUE(view().job_over);
}

TEST_F(MachineTest, ALocalFailureEndsTheEpochHereAndIsToldUntilHeard) {
  Running();
  Step(1, StreamClosed{1, absl::UnavailableError("cut")});
  Step(1, FailLocally{{4, "Submit", absl::StatusCode::kInternal, "nan"}});
  EXPECT_EQ(view().phase, SessionPhase::kEnded);
  for (const char* part :
       {"rank 1", "b on host-b", "step 4", "Submit", "nan"}) {
    EXPECT_THAT(view().status.message(), HasSubstr(part));
  }
  Step(2, DeadlineExpired{});
  Step(2, StreamOpened{2});
  EXPECT_EQ(Receive(2, 2, protocol::Welcome{{3}, Spec(), true}),
            "send 2: failure Submit: nan");
  const absl::Status mine = view().status;
  HearEnd(2, 2, CauseKind::kLocalFailure, "b failed");
  EXPECT_EQ(view().status, mine);
  EXPECT_EQ(Resume(3, 2), "");
}

TEST_F(MachineTest, ADisagreementOfAllRanksIsNotTheFailureOfThisOne) {
  Running();
  Step(1, FailLocally{{4, "", absl::StatusCode::kAborted, "ranks differ"}});
  EXPECT_EQ(view().status, absl::AbortedError("ranks differ"));
}

TEST_F(MachineTest, ProofOfAMembersDeathEndsTheEpochAtOnce) {
  Running();
  EXPECT_EQ(Step(1, PeerFailed{{{"a"},
                                {2},
                                protocol::EvidenceKind::kExited,
                                "killed by signal 9",
                                Members()[0].process}}),
            "send 1: evidence against a: killed by signal 9");
  EXPECT_EQ(view().phase, SessionPhase::kEnded);
  EXPECT_THAT(view().status.message(), HasSubstr("rank 0 (a) died"));
}

TEST_F(MachineTest, TheCoordinatorsSentenceReplacesThatOfADeathSeenHere) {
  Running();
  Step(1, PeerFailed{{{"a"},
                      {2},
                      protocol::EvidenceKind::kExited,
                      "killed by signal 9",
                      Members()[0].process}});
  EXPECT_TRUE(view().provisional);
  HearEnd(1, 1, CauseKind::kProcessDied, "a died, last reported at step 7");
  EXPECT_FALSE(view().provisional);
  EXPECT_EQ(view().status,
            absl::AbortedError("a died, last reported at step 7"));
}

TEST_F(MachineTest, ProofOfAFormerLifesDeathEndsNothing) {
  Running();
  for (const Generation& generation : {Generation{0}, Generation{1}}) {
    Step(1, PeerFailed{{{"a"},
                        generation,
                        protocol::EvidenceKind::kExited,
                        "long ago",
                        Members()[0].process}});
  }
  protocol::ProcessInfo former = Members()[0].process;
  --former.start_time;
  Step(1,
       PeerFailed{
           {{"a"}, {2}, protocol::EvidenceKind::kExited, "long ago", former}});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
}

TEST_F(MachineTest, AHintIsPassedOnOnceAndAgainAfterALostStream) {
  Running();
  const PeerFailed hint{
      {{"a"}, {2}, protocol::EvidenceKind::kPeerReset, "reset"}};
  EXPECT_EQ(Step(1, hint), "send 1: evidence against a: reset");
  EXPECT_EQ(Step(1, hint), "");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_EQ(Resume(2, 1), "send 2: evidence against a: reset");
}

// The coordinator awaits the report of a member that has died meanwhile.
TEST_F(MachineTest, ProofOfADeathAfterTheEndIsPassedOnUntilItArrives) {
  Running();
  HearEnd(0.1, 1, CauseKind::kLeft, "x");
  const absl::Status why = view().status;
  const PeerFailed proof{{{"a"},
                          {2},
                          protocol::EvidenceKind::kExited,
                          "ended",
                          Members()[0].process}};
  EXPECT_EQ(Step(1, proof), "send 1: evidence against a: ended");
  EXPECT_EQ(view().status, why);
  EXPECT_FALSE(view().provisional);
  EXPECT_EQ(Resume(2, 1), "send 2: evidence against a: ended");
}

TEST_F(MachineTest, AHintAfterTheEndIsNot) {
  Running();
  HearEnd(0.1, 1, CauseKind::kLeft, "x");
  const PeerFailed hint{
      {{"a"}, {2}, protocol::EvidenceKind::kPeerReset, "reset"}};
  EXPECT_EQ(Step(0.1, hint), "");
}

TEST_F(MachineTest, ReportsWhereItStandsAfterTheEndAndNotBefore) {
  Running();
  const Quiesced report{{{5, protocol::Phase::kIdle}, ""}};
  EXPECT_EQ(Step(0.1, report), "");
  HearEnd(0.1, 1, CauseKind::kLeft, "x");
  EXPECT_EQ(Step(0.1, report), "send 1: report step 5");
  EXPECT_EQ(Resume(0.2, 1), "send 2: report step 5");
}

TEST_F(MachineTest, ReportsAGrowthBeforeTheEnd) {
  Running();
  const Quiesced report{{{5, protocol::Phase::kIdle}, "", false, true}};
  ASSERT_TRUE(report.report.grows);
  EXPECT_EQ(Step(0.1, report), "send 1: report step 5");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_EQ(Resume(0.2, 1), "send 2: report step 5");
  HearEnd(0.3, 2, CauseKind::kGrown, "x");
  EXPECT_EQ(view().phase, SessionPhase::kEnded);
}

TEST_F(MachineTest, LeavesWhenTheCoordinatorKnows) {
  Running();
  EXPECT_EQ(Step(1, LeaveNow{{true, 20, ""}}), "send 1: leave clean after 20");
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  EXPECT_EQ(Receive(1, 1, protocol::Left{}), "close 1");
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_TRUE(view().leave_status.ok());
  EXPECT_EQ(machine_->NextWake(), absl::InfiniteFuture());
}

// It may be stopped, and another one may lead.
TEST_F(MachineTest, LooksForAnotherCoordinatorWhenLeaveIsNotAnswered) {
  Running();
  Step(1, LeaveNow{{true, 20, ""}});
  EXPECT_EQ(Step(2.9, DeadlineExpired{}), "send 1: heartbeat");
  EXPECT_EQ(Step(3, DeadlineExpired{}), "close 1");
  EXPECT_EQ(Step(3.3, DeadlineExpired{}), "open 2 at 0");
  Step(3.3, StreamOpened{2});
  EXPECT_THAT(Receive(3.4, 2, protocol::Welcome{{3}, Spec(), true}),
              HasSubstr("send 2: leave clean after 20"));
  Receive(3.5, 2, protocol::Left{});
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_TRUE(view().leave_status.ok());
}

TEST_F(MachineTest, LeavesAllTheSameWhenNoCoordinatorAnswers) {
  Running();
  Step(1, LeaveNow{{true, 20, ""}});
  for (double at = 1; at < 120.5; at += 0.1) Step(at, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  Step(121, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_EQ(view().leave_status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(MachineTest, WaitsForACoordinatorThatIsAwayBeforeItLeaves) {
  Running();
  Step(1, StreamClosed{1, absl::UnavailableError("gone")});
  Step(1, LeaveNow{{true, 20, ""}});
  Step(120.9, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kRunning);
  Step(121, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_EQ(view().leave_status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(MachineTest, LeavesOnceTheCoordinatorIsBack) {
  Running();
  Step(1, LeaveNow{{true, 20, ""}});
  EXPECT_EQ(Resume(60, 1), "send 2: leave clean after 20");
  Receive(60.1, 2, protocol::Left{});
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_TRUE(view().leave_status.ok());
}

TEST_F(MachineTest, AfterAFailureItDoesNotWaitForACoordinatorThatIsAway) {
  Running();
  Step(1, StreamClosed{1, absl::UnavailableError("gone")});
  Step(1, LeaveNow{{false, 20, "a failure"}});
  Step(3, DeadlineExpired{});
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
}

TEST_F(MachineTest, SaysGoodbyeAgainOnTheNextStream) {
  Running();
  Step(1, LeaveNow{{true, 20, ""}});
  EXPECT_EQ(Resume(1.1, 1), "send 2: leave clean after 20");
}

TEST_F(MachineTest, AJobThatIsOverNeedsNoGoodbye) {
  Running();
  EXPECT_EQ(HearEnd(1, 1, CauseKind::kStopped, "enough", /*final=*/true),
            "close 1");
  EXPECT_EQ(Step(1, LeaveNow{{false, 20, ""}}), "");
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_EQ(view().status, absl::CancelledError("enough"));
}

TEST_F(MachineTest, TheEndOfTheJobAnswersAGoodbyeToo) {
  Running();
  Step(1, LeaveNow{{true, 20, ""}});
  HearEnd(1, 1, CauseKind::kNone, "completed", /*final=*/true);
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
  EXPECT_TRUE(view().leave_status.ok());
}

TEST_F(MachineTest, WhoNeverWasWelcomedLeavesWithoutAWord) {
  Step(0, Begin{});
  EXPECT_EQ(Step(1, LeaveNow{}), "close 1");
  EXPECT_EQ(view().phase, SessionPhase::kLeft);
}

TEST_F(MachineTest, KeepsTheNewestWordOfWhatAnOperatorWants) {
  Running();
  const protocol::DesiredCommands pause{{Command::kPause}, "lunch", 5};
  Receive(1, 1, pause);
  EXPECT_EQ(view().wanted, pause);
  Receive(1, 1, protocol::DesiredCommands{.number = 4});
  EXPECT_EQ(view().wanted, pause) << "an older one";
  Receive(1, 1, protocol::DesiredCommands{.number = 6}, /*epoch=*/2);
  EXPECT_EQ(view().wanted, pause) << "of another epoch";
  Receive(1, 1, protocol::DesiredCommands{.number = 6});
  EXPECT_EQ(view().wanted, protocol::DesiredCommands{.number = 6});
}

// --- Checkpoints ------------------------------------------------------------

ReportCheckpoint Writing(uint64_t bytes_done) {
  using Stage = protocol::CheckpointSave::Stage;
  return {{.save = protocol::CheckpointSave{.number = 1,
                                            .step = 20,
                                            .stage = Stage::kWriting,
                                            .bytes_done = bytes_done}}};
}

TEST_F(MachineTest, SendsMoreBytesOnceASecondAndAllElseAtOnce) {
  Running();
  EXPECT_EQ(Step(0, Writing(0)), "send 1: checkpoints save 1 stage 1 bytes 0");
  EXPECT_EQ(Step(0.2, Writing(10)), "");
  EXPECT_EQ(Step(0.4, Writing(20)), "");
  EXPECT_EQ(Step(0.5, DeadlineExpired{}), "send 1: heartbeat");
  EXPECT_EQ(machine_->NextWake(), At(1));
  EXPECT_EQ(Step(1, DeadlineExpired{}),
            "send 1: checkpoints save 1 stage 1 bytes 20");
  ReportCheckpoint written = Writing(30);
  written.report.save->stage = protocol::CheckpointSave::Stage::kWritten;
  EXPECT_EQ(Step(1.1, written), "send 1: checkpoints save 1 stage 2 bytes 30");
  EXPECT_EQ(Step(1.2, written), "");
}

TEST_F(MachineTest, RepeatsItsReportOnANewStreamBeforeItsLeave) {
  Running();
  Step(0, Writing(0));
  Step(0, LeaveNow{{.steps = 20}});
  Receive(0, 1, protocol::CheckpointNews{.decided = 7});
  Step(0, StreamClosed{1, absl::UnavailableError("reset")});
  Step(0.5, DeadlineExpired{});
  Step(0.5, StreamOpened{2});
  EXPECT_EQ(Receive(0.5, 2, protocol::Welcome{{3}, Spec(), true}, 0),
            "send 2: checkpoints save 1 stage 1 bytes 0 decided 7\n"
            "send 2: leave clean after 20");
}

TEST_F(MachineTest, NewsAreNotTakenBack) {
  Running();
  const protocol::CheckpointFault fault{1, absl::NotFoundError("no")};
  Receive(0, 1,
          protocol::CheckpointNews{
              .directory = protocol::CheckpointDirectory{.path = "/d"},
              .opened = true,
              .access_faults = {fault},
              .decided = 3,
              .faults = {fault}});
  Receive(0, 1, protocol::CheckpointNews{.decided = 2});
  EXPECT_EQ(view().checkpoints.directory->path, "/d");
  EXPECT_TRUE(view().checkpoints.opened);
  EXPECT_EQ(view().checkpoints.access_faults.size(), 1u);
  EXPECT_EQ(view().checkpoints.decided, 3u);
  EXPECT_EQ(view().checkpoints.faults.size(), 1u);
  Receive(0, 1, protocol::CheckpointNews{.decided = 4});
  EXPECT_EQ(view().checkpoints.decided, 4u);
  EXPECT_TRUE(view().checkpoints.faults.empty());
}

// Ranks that failed to open a directory open another one.
TEST_F(MachineTest, TheOpeningOfAnotherDirectoryIsNews) {
  Running();
  protocol::CheckpointNews news{
      .directory = protocol::CheckpointDirectory{.path = "/d", .nonce = "1"},
      .opened = true,
      .access_faults = {{1, absl::NotFoundError("no")}}};
  Receive(0, 1, news);
  news = {.directory =
              protocol::CheckpointDirectory{.path = "/d", .nonce = "2"}};
  Receive(0, 1, news);
  EXPECT_EQ(view().checkpoints, news);
}

TEST_F(MachineTest, ReportsNothingAfterTheEpoch) {
  Running();
  Receive(0, 1, protocol::EpochEnded{{.message = "w-1 died"}, false});
  EXPECT_EQ(Step(0, Writing(0)), "");
}

}  // namespace
}  // namespace lockstep::session

// A coordinator without a journal replaces another while a job runs.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using protocol::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A running job, followed by a coordinator without any records.
class AdoptionTest : public testing::Test {
 protected:
  explicit AdoptionTest(JobSpec spec = SpecOf(2)) : fixture_(std::move(spec)) {}

  void LoseTheCoordinator(absl::Duration window = absl::ZeroDuration()) {
    for (int i = 1; i <= fixture_.world(); ++i) offers_.push_back(OfferOf(i));
    fixture_.Restart(/*forgotten=*/fixture_.records().size(), window);
    fixture_.Step(TimerExpired{});  // a daemon's first one
  }
  void RunAndLoseTheCoordinator(absl::Duration window = absl::ZeroDuration()) {
    fixture_.RunAll();
    before_ = fixture_.View();
    LoseTheCoordinator(window);
  }

  // A process other than the running one, with the name of worker i.
  protocol::Hello NewcomerOf(int i, uint64_t incarnation = 4711) const {
    protocol::Hello newcomer = fixture_.HelloOf(i);
    newcomer.incarnation = incarnation;
    newcomer.process.pid = 900 + i;
    return newcomer;
  }
  // The replies to newcomers for all ranks, on streams 5, 6, ...
  EffectList AllNewcomers(const JobSpec& spec) {
    EffectList requested;
    for (int i = 1; i <= fixture_.world(); ++i) {
      protocol::Hello newcomer = NewcomerOf(i);
      newcomer.spec = spec;
      requested += fixture_.Hello(4 + i, newcomer);
    }
    return requested;
  }
  JobSpec OtherSpec() const {
    JobSpec other = fixture_.spec();
    other.seed = 4711;
    return other;
  }
  int NotesOfTheOtherJob() const {
    int notes = 0;
    for (const std::string& line : LinesOf(fixture_)) {
      notes += absl::StrContains(line, "another job digits runs");
    }
    return notes;
  }

  // The Hello of worker i when it resumes.
  protocol::Hello OfferOf(int i) const {
    const DurableJob& durable = fixture_.durable_job();
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.generation = {1};
    hello.secret = fixture_.SecretOf(i);
    hello.resume = protocol::ResumeState{
        .epoch = durable.epoch,
        .revision = durable.revision,
        .plan_digest = durable.plan_digest,
        .position = {12, Phase::kCompute},
        .started = true,
        .rank = i - 1,
        .members_digest = plan::DigestOf(durable.members.items())};
    if (i == 1) hello.resume->observed_order = durable.observed_order;
    return hello;
  }
  EffectList Offer(uint64_t session, int i) {
    return fixture_.Hello(session, offers_.at(i - 1));
  }
  void RegisterOn(const std::vector<uint64_t>& sessions) {
    for (const uint64_t session : sessions) {
      fixture_.Register(session,
                        {ParameterNamed("weight"), ParameterNamed("bias")});
    }
  }
  bool IsKnown() {
    return fixture_.core().Describe(fixture_.job(), fixture_.now()).ok();
  }

  CoordinatorFixture fixture_;
  JobView before_;
  std::vector<protocol::Hello> offers_;
};

TEST_F(AdoptionTest, ARunningJobIsAdoptedWhenAllItsWorkersHaveOfferedIt) {
  RunAndLoseTheCoordinator();
  EXPECT_THAT(
      Offer(11, 1),
      EffectsAre(Closes(11, StatusCode::kUnavailable,
                        "job digits is not known to this coordinator: 1 of 2 "
                        "workers of its epoch 1 offers it for adoption")));
  EXPECT_FALSE(IsKnown());
  EXPECT_THAT(Offer(12, 2),
              EffectsAre(Persists(1, JobAdopted("digits", 1, {"w-1", "w-2"})),
                         Sends(12, WelcomeBack(1)),
                         Sends(12, EpochFormed(1, 1, {"w-1", "w-2"})),
                         Sends(12, Start()), Sends(12, RegistrationWanted())));
  EXPECT_THAT(Offer(21, 1),
              EffectsAre(Sends(21, WelcomeBack(1)),
                         Sends(21, EpochFormed(1, 0, {"w-1", "w-2"})),
                         Sends(21, Start()), Sends(21, RegistrationWanted())));
  EXPECT_THAT(LinesOf(fixture_),
              testing::Contains(HasSubstr("epoch 1 is adopted")));
  RegisterOn({21, 12});
  const JobView view = fixture_.View();
  EXPECT_EQ(view.state, JobState::kRunning);
  EXPECT_EQ(view.parameters, before_.parameters);
  EXPECT_EQ(view.buckets, before_.buckets);
  EXPECT_EQ(view.plan_digest, before_.plan_digest);
  for (const WorkerView& worker : view.workers) {
    EXPECT_EQ(worker.state, WorkerState::kReady);
    EXPECT_EQ(worker.generation, Generation{1});
  }
  EXPECT_THAT(fixture_.WaitWithHeartbeats(60, {21, 12}), NoEffects());
  fixture_.Says(21, protocol::Leave{.steps = 20});
  fixture_.Says(12, protocol::Leave{.steps = 20});
  EXPECT_EQ(fixture_.View().state, JobState::kCompleted);
}

TEST_F(AdoptionTest, NobodyMakesAJobOfItsNameMeanwhile) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  EXPECT_THAT(
      fixture_.Step(CreateJob{{1}, fixture_.spec(), ""}),
      EffectsAre(Answers(
          1, StatusCode::kFailedPrecondition,
          StartsWith("job digits runs, though this coordinator does not know "
                     "it yet: 1 of 2 workers of its epoch 1 offers it"))));
  EXPECT_THAT(fixture_.Hello(5, fixture_.HelloOf(5)),
              Refuses(5, StatusCode::kFailedPrecondition,
                      StartsWith("job digits runs")));
  Offer(12, 2);
  EXPECT_THAT(fixture_.Step(CreateJob{{2}, fixture_.spec(), ""}),
              EffectsAre(Answers(2, StatusCode::kOk)))
      << "it is the same job";
  protocol::Hello newcomer = fixture_.HelloOf(2);
  newcomer.incarnation = 4711;
  EXPECT_THAT(fixture_.Hello(6, newcomer),
              Refuses(6, StatusCode::kAlreadyExists));
  EXPECT_EQ(fixture_.ViewOf(2).state, WorkerState::kReady);
}

// `create -f`, or a launcher, may run before the first worker resumes.
TEST_F(AdoptionTest, AJobThatWasMadeAgainGivesWayToTheRunningOne) {
  RunAndLoseTheCoordinator();
  fixture_.Step(CreateJob{{1}, fixture_.spec(), ""});
  protocol::Hello newcomer = fixture_.HelloOf(2);
  newcomer.incarnation = 4711;
  newcomer.process.pid = 999;
  EXPECT_THAT(fixture_.Hello(5, newcomer), Includes(Sends(5, Welcome(1))));
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  EXPECT_THAT(
      Offer(12, 2),
      EffectsAre(Sends(5, Refused(StatusCode::kFailedPrecondition,
                                  "job digits runs already: the 2 workers of "
                                  "its epoch 1 offered it for adoption")),
                 Closes(5, StatusCode::kFailedPrecondition,
                        "job digits runs already: the 2 workers of its epoch 1 "
                        "offered it for adoption"),
                 Persists(3, JobAdopted("digits", 1, {"w-1", "w-2"})),
                 Sends(12, WelcomeBack(1)),
                 Sends(12, EpochFormed(1, 1, {"w-1", "w-2"})),
                 Sends(12, Start()), Sends(12, RegistrationWanted())));
  EXPECT_EQ(fixture_.ViewOf(2).process.pid, 102);
  EXPECT_THAT(fixture_.Closes(5), NoEffects());
  EXPECT_THAT(Offer(21, 1), Includes(Sends(21, Start())));
}

TEST_F(AdoptionTest, AnotherJobOfItsNameNeverEndsIt) {
  RunAndLoseTheCoordinator();
  fixture_.Step(CreateJob{{1}, OtherSpec(), ""});
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  EXPECT_THAT(Offer(12, 2),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
  EXPECT_EQ(fixture_.View().spec, fixture_.spec());
}

TEST_F(AdoptionTest, ItsTokenMustBeThatOfTheJobItTakesThePlaceOf) {
  RunAndLoseTheCoordinator();
  fixture_.Step(CreateJob{{1}, fixture_.spec(), "secret"});
  EXPECT_THAT(Offer(11, 1),
              EffectsAre(Closes(11, StatusCode::kPermissionDenied)));
}

TEST_F(AdoptionTest, AJobOfItsNameThatIsOverIsKeptUnderAnother) {
  RunAndLoseTheCoordinator();
  AllNewcomers(fixture_.spec());
  ASSERT_EQ(fixture_.epoch(), EpochId{1});
  fixture_.Step(StopJob{{2}, fixture_.job(), "", "enough"});
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  EXPECT_THAT(Offer(12, 2),
              Includes(Persists(7, JobArchived("digits#1")),
                       Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
  EXPECT_EQ(fixture_.core().Describe({"digits#1"}, fixture_.now())->state,
            JobState::kStopped);
  EXPECT_EQ(fixture_.ViewOf(1).process.pid, 101);
}

TEST_F(AdoptionTest, ACoordinatorOfAnotherVersionDoesNotEndIt) {
  RunAndLoseTheCoordinator();
  protocol::Hello offer = offers_[0];
  offer.version = protocol::kVersion + 1;
  EXPECT_THAT(fixture_.Hello(11, offer),
              EffectsAre(Closes(11, StatusCode::kFailedPrecondition,
                                StartsWith("w-1 speaks protocol version"))));
}

TEST_F(AdoptionTest, NorDoesOneThatHasBegun) {
  RunAndLoseTheCoordinator();
  AllNewcomers(fixture_.spec());
  ASSERT_EQ(fixture_.epoch(), EpochId{1});
  const std::string let_go =
      "job digits of this coordinator is another than that of ";
  for (uint64_t session = 11; session < 19; session += 2) {
    EXPECT_THAT(Offer(session, 1),
                EffectsAre(Closes(session, StatusCode::kUnavailable,
                                  StartsWith(let_go + "w-1, epoch 1"))));
    EXPECT_THAT(Offer(session + 1, 2),
                EffectsAre(Closes(session + 1, StatusCode::kUnavailable,
                                  StartsWith(let_go + "w-2, epoch 1"))));
  }
  EXPECT_EQ(NotesOfTheOtherJob(), 1);
  EXPECT_THAT(fixture_.View().warnings,
              testing::ElementsAre(HasSubstr(
                  "w-1 (rank 0, host a, pid 101) resumes in its epoch 1")));
  EXPECT_EQ(fixture_.View().state, JobState::kSealed);
  EXPECT_EQ(fixture_.ViewOf(1).process.pid, 901);

  offers_[0].resume->leaving = true;
  EXPECT_THAT(Offer(20, 1),
              EffectsAre(Sends(20, Left()), Closes(20, StatusCode::kOk)));
  EXPECT_EQ(NotesOfTheOtherJob(), 1);
}

TEST_F(AdoptionTest, NorDoesOneThatHasBegunWithAnotherSpec) {
  RunAndLoseTheCoordinator();
  AllNewcomers(OtherSpec());
  ASSERT_EQ(fixture_.epoch(), EpochId{1});
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  offers_[1].token = "another";
  EXPECT_THAT(Offer(12, 2), EffectsAre(Closes(12, StatusCode::kUnavailable)));
  EXPECT_EQ(NotesOfTheOtherJob(), 1);
}

class RestartingAdoptionTest : public AdoptionTest {
 protected:
  RestartingAdoptionTest() : AdoptionTest(RestartingSpec(2)) {}
};

// The running job's generations are then lower, like those of fenced workers.
TEST_F(RestartingAdoptionTest, NorDoesOneThatHasBegunMoreThanOnce) {
  RunAndLoseTheCoordinator();
  AllNewcomers(fixture_.spec());
  fixture_.Closes(5);
  EXPECT_THAT(fixture_.Hello(7, NewcomerOf(1, /*incarnation=*/4712)),
              Includes(Sends(7, Welcome(2))));
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  protocol::Hello fenced = NewcomerOf(1);
  fenced.generation = {1};
  fenced.secret = "any";
  fenced.resume = offers_[0].resume;
  fenced.resume->members_digest =
      fixture_.durable_job().members_digests.at(EpochId{1});
  EXPECT_THAT(fixture_.Hello(12, fenced),
              Refuses(12, StatusCode::kFailedPrecondition,
                      StartsWith("generation 1 of w-1 is over")));
}

// --- The adoption window ----------------------------------------------------

class AdoptionWindowTest : public AdoptionTest {
 protected:
  static constexpr absl::Duration kWindow = absl::Seconds(2);
};

TEST_F(AdoptionWindowTest, NewcomersGiveWayToTheRunningJobThatComesAfterThem) {
  RunAndLoseTheCoordinator(kWindow);
  EXPECT_THAT(AllNewcomers(fixture_.spec()),
              AllOf(Includes(Sends(6, Welcome(1))),
                    Not(Includes(Sends(Any<protocol::EpochFormed>())))));
  EXPECT_THAT(fixture_.Wait(1), NoEffects());
  EXPECT_THAT(fixture_.Stalls(),
              testing::ElementsAre("waits 1s for running jobs to offer "
                                   "themselves after the coordinator's start"));
  EXPECT_THAT(Offer(11, 1), Includes(Closes(11, StatusCode::kUnavailable)));
  const TextMatcher runs = StartsWith("job digits runs");
  EXPECT_THAT(Offer(12, 2),
              Includes(Sends(5, Refused(StatusCode::kFailedPrecondition, runs)),
                       Closes(5, StatusCode::kFailedPrecondition, runs),
                       Sends(6, Refused(StatusCode::kFailedPrecondition, runs)),
                       Closes(6, StatusCode::kFailedPrecondition, runs),
                       Persists(4, JobAdopted("digits", 1, {"w-1", "w-2"}))));
  EXPECT_EQ(fixture_.ViewOf(1).process.pid, 101);
}

TEST_F(AdoptionWindowTest, EvenThoseWithAnotherSpec) {
  RunAndLoseTheCoordinator(kWindow);
  EXPECT_THAT(AllNewcomers(OtherSpec()),
              Not(Includes(Sends(Any<protocol::EpochFormed>()))));
  EXPECT_THAT(Offer(11, 1), EffectsAre(Closes(11, StatusCode::kUnavailable)));
  EXPECT_THAT(Offer(12, 2),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
  EXPECT_EQ(fixture_.View().spec, fixture_.spec());
}

TEST_F(AdoptionWindowTest, NewcomersThatComeAfterAnOfferAreRefused) {
  RunAndLoseTheCoordinator(kWindow);
  Offer(11, 1);
  for (const JobSpec& spec : {fixture_.spec(), OtherSpec()}) {
    protocol::Hello newcomer = NewcomerOf(2);
    newcomer.spec = spec;
    EXPECT_THAT(fixture_.Hello(5 + (spec.seed != 0), newcomer),
                Refuses(5 + (spec.seed != 0), StatusCode::kFailedPrecondition,
                        StartsWith("job digits runs")));
  }
  EXPECT_THAT(Offer(12, 2),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionWindowTest, AJobFormsWhenTheWindowIsOver) {
  fixture_.spec().timeouts.join = absl::Seconds(1);
  fixture_.Restart(0, kWindow);
  fixture_.Step(TimerExpired{});
  AllNewcomers(fixture_.spec());
  EXPECT_THAT(fixture_.WaitWithHeartbeats(1, {5, 6}), NoEffects());
  EXPECT_THAT(fixture_.Wait(0.9), NoEffects());
  EXPECT_THAT(fixture_.Wait(0.1),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
  EXPECT_THAT(fixture_.Stalls(), testing::IsEmpty());
  EXPECT_THAT(LinesOf(fixture_),
              testing::Contains("the job waits 2s for running jobs to offer "
                                "themselves after the coordinator's start"));
}

TEST_F(AdoptionWindowTest, ItBeginsWithTheCoordinator) {
  fixture_.Restart(0, kWindow);
  fixture_.Step(TimerExpired{});
  fixture_.Pass(1.5);
  AllNewcomers(fixture_.spec());
  EXPECT_THAT(fixture_.Wait(0.5),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionWindowTest, AfterItAJobFormsAtOnce) {
  fixture_.Restart(0, kWindow);
  fixture_.Step(TimerExpired{});
  fixture_.Pass(2);
  EXPECT_THAT(AllNewcomers(fixture_.spec()),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionWindowTest, ACoordinatorWithRecordsHasNone) {
  fixture_.Step(CreateJob{{1}, fixture_.spec(), ""});
  fixture_.Restart(0, kWindow);
  fixture_.Step(TimerExpired{});
  EXPECT_THAT(AllNewcomers(fixture_.spec()),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionWindowTest, NoEpochFormsWhileAnOfferHolds) {
  RunAndLoseTheCoordinator(kWindow);
  AllNewcomers(fixture_.spec());
  fixture_.WaitWithHeartbeats(1, {5, 6});
  Offer(11, 1);
  EXPECT_THAT(fixture_.WaitWithHeartbeats(3, {5, 6}), NoEffects());
  EXPECT_THAT(fixture_.Stalls(),
              testing::ElementsAre("waits 7s for a running job of this name: 1 "
                                   "of 2 workers of its epoch 1 offers it for "
                                   "adoption"));
  EXPECT_THAT(fixture_.WaitWithHeartbeats(8, {5, 6}),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))))
      << "nobody offers it any more";
  Offer(12, 1);
  EXPECT_EQ(NotesOfTheOtherJob(), 1);
}

TEST_F(AdoptionWindowTest, AnOfferAfterItIsTakenWhileTheJobHasNoEpoch) {
  RunAndLoseTheCoordinator(kWindow);
  fixture_.Hello(5, NewcomerOf(1));
  fixture_.WaitWithHeartbeats(5, {5});
  Offer(11, 1);
  EXPECT_THAT(Offer(12, 2),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionTest, WorkersThatStopOfferingAreNotWaitedFor) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  fixture_.Pass(10);  // the lease
  EXPECT_THAT(fixture_.Hello(5, fixture_.HelloOf(5)),
              Includes(Sends(5, Welcome(1))));
  EXPECT_THAT(
      Offer(12, 2),
      Includes(Closes(
          12, StatusCode::kUnavailable,
          StartsWith("job digits is not known to this coordinator: 1 of 2"))))
      << "the first offer is too old to count";
}

TEST_F(AdoptionTest, OffersThatDisagreeAreNotAdopted) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  const protocol::Hello good = offers_[1];
  std::vector<protocol::Hello> wrong(5, good);
  wrong[0].resume->epoch = {2};
  wrong[1].resume->members_digest = "feed";
  wrong[2].resume->plan_digest = "feed";
  wrong[3].spec->seed = 4711;
  wrong[4].process.pid = 999;  // not a member in that digest
  uint64_t session = 20;
  for (const protocol::Hello& hello : wrong) {
    EXPECT_THAT(fixture_.Hello(session, hello),
                EffectsAre(Closes(session, StatusCode::kUnavailable)));
    EXPECT_FALSE(IsKnown());
    ++session;
  }
  EXPECT_THAT(fixture_.Hello(30, good),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionTest, WhatCannotBeAnOfferEndsItsStreamAndNothingElse) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  std::vector<protocol::Hello> wrong(4, offers_[1]);
  wrong[0].spec.reset();
  wrong[1].resume->rank = 2;
  wrong[2].resume->rank = -1;
  wrong[3].resume->rank = 0;  // that of another member with a valid offer
  uint64_t session = 20;
  for (const protocol::Hello& hello : wrong) {
    EXPECT_THAT(fixture_.Hello(session, hello), EffectsAre(Closes(session)));
    ++session;
  }
  EXPECT_THAT(Offer(30, 2),
              Includes(Persists(JobAdopted("digits", 1, {"w-1", "w-2"}))));
}

TEST_F(AdoptionTest, TheFirstLifeThatOffersARankKeepsIt) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  protocol::Hello impostor = offers_[0];
  impostor.incarnation = 4711;
  EXPECT_THAT(
      fixture_.Hello(12, impostor),
      Includes(Closes(
          12, StatusCode::kFailedPrecondition,
          StartsWith(
              "job digits is not known to this coordinator, and w-1 cannot "
              "offer it for adoption: rank 0 is offered by w-1"))));
  Offer(13, 2);
  EXPECT_THAT(fixture_.Hello(14, impostor),
              Includes(Closes(14, StatusCode::kPermissionDenied)));
  EXPECT_THAT(Offer(15, 1), Includes(Sends(15, Start())));
}

TEST_F(AdoptionTest, SecretsThatWereGivenElsewhereHold) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  Offer(12, 2);
  protocol::Hello guess = offers_[0];
  guess.secret = "guess";
  EXPECT_THAT(fixture_.Hello(13, guess),
              Includes(Closes(13, StatusCode::kPermissionDenied)));
  fixture_.Restart();
  EXPECT_THAT(fixture_.Hello(14, guess),
              Includes(Closes(14, StatusCode::kPermissionDenied)));
  EXPECT_THAT(Offer(15, 1), Includes(Sends(15, Start()))) << "it is journaled";
}

TEST_F(AdoptionTest, AJobWithATokenKeepsIt) {
  fixture_.Step(CreateJob{{1}, fixture_.spec(), "secret"});
  for (const int i : {1, 2}) {
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.token = "secret";
    fixture_.Hello(i, hello);
  }
  fixture_.ConnectAll();
  LoseTheCoordinator();
  offers_[0].token = offers_[1].token = "secret";
  Offer(11, 1);
  Offer(12, 2);
  EXPECT_TRUE(absl::IsPermissionDenied(
      fixture_.core().Authorize(fixture_.job(), "guess")));
  EXPECT_TRUE(fixture_.core().Authorize(fixture_.job(), "secret").ok());
}

TEST_F(AdoptionTest, WhatAnOperatorWantsIsKept) {
  fixture_.RunAll();
  Asks(fixture_, JobCommand::kPause, "look");
  const protocol::DesiredCommands wanted = fixture_.durable_job().wanted;
  LoseTheCoordinator();
  offers_[1].resume->wanted = wanted;  // the other had not received it
  Offer(11, 1);
  EXPECT_THAT(Offer(12, 2),
              Includes(Sends(12, DesiredCommands({Command::kPause}))));
  EXPECT_THAT(Offer(21, 1),
              Includes(Sends(21, DesiredCommands({Command::kPause}))));
  EXPECT_THAT(Asks(fixture_, JobCommand::kResume),
              EffectsEndWith(Answers(7, StatusCode::kOk)));
  EXPECT_EQ(fixture_.durable_job().wanted.number, wanted.number + 1);
}

// Other ranks may have left before: the offers will never be complete.
TEST_F(AdoptionTest, AWorkerThatIsDoneMayGo) {
  RunAndLoseTheCoordinator();
  offers_[0].resume->leaving = true;
  EXPECT_THAT(Offer(11, 1), Includes(Closes(11, StatusCode::kUnavailable)));
  fixture_.Pass(0.5);
  EXPECT_THAT(Offer(12, 1), Includes(Closes(12, StatusCode::kUnavailable)));
  fixture_.Pass(0.5);
  EXPECT_THAT(Offer(13, 1),
              EffectsAre(Sends(13, Left()), Closes(13, StatusCode::kOk)));
  EXPECT_THAT(Offer(14, 2), EffectsAre(Closes(14, StatusCode::kUnavailable,
                                              HasSubstr("1 of 2"))))
      << "it is not missed";
}

TEST_F(AdoptionTest, AllThatAreDoneCompleteTheJob) {
  RunAndLoseTheCoordinator();
  for (protocol::Hello& offer : offers_) offer.resume->leaving = true;
  Offer(11, 1);
  Offer(12, 2);
  fixture_.Says(12, protocol::Leave{.steps = 20});
  Offer(21, 1);
  EXPECT_THAT(fixture_.Says(21, protocol::Leave{.steps = 20}),
              Includes(Persists(JobEnded(record::JobOutcome::kCompleted))));
}

TEST_F(AdoptionTest, AnEpochThatIsOverIsNotAdopted) {
  RunAndLoseTheCoordinator();
  for (protocol::Hello& offer : offers_) offer.resume->ended = true;
  EXPECT_THAT(Offer(11, 1), Includes(Closes(11, StatusCode::kNotFound)));
  EXPECT_THAT(Offer(12, 2), Includes(Closes(12, StatusCode::kNotFound)));
  offers_[0].resume->leaving = true;
  EXPECT_THAT(Offer(13, 1),
              EffectsAre(Sends(13, Left()), Closes(13, StatusCode::kOk)));
}

// The member has offered the job and trains: that it has not resumed yet does
// not mean that it died.
TEST_F(AdoptionTest, ANewcomerDoesNotTakeTheNameOfAMemberThatResumesLater) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  Offer(12, 2);
  ASSERT_EQ(fixture_.ViewOf(1).state, WorkerState::kSuspect);
  protocol::Hello newcomer = fixture_.HelloOf(1);
  newcomer.incarnation = 4711;
  EXPECT_THAT(fixture_.Hello(5, newcomer),
              EffectsAre(Closes(5, StatusCode::kUnavailable)));
  EXPECT_THAT(Offer(21, 1), Includes(Sends(21, Start())));
  fixture_.Closes(21, "reset");
  EXPECT_THAT(fixture_.Hello(6, newcomer),
              Not(Includes(Sends(Refused(StatusCode::kAlreadyExists)))))
      << "now it is a broken stream";
}

TEST_F(AdoptionTest, AMemberThatIsLostAfterwardsEndsTheEpoch) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  Offer(12, 2);
  EXPECT_THAT(
      fixture_.WaitWithHeartbeats(12, {12}),
      FailsJob(12, StartsWith("w-1 (rank 0, host a, pid 101) fell silent")));
}

// A worker that waits for an epoch has no state to lose, and no other way to
// continue.
TEST_F(AdoptionTest, AWorkerThatWaitsForAnEpochIsANewcomer) {
  fixture_.Hello(1);
  protocol::Hello waiting = fixture_.HelloOf(1);
  waiting.generation = {1};
  waiting.secret = fixture_.SecretOf(1);
  waiting.resume = protocol::ResumeState{};
  fixture_.Restart(/*forgotten=*/2);
  EXPECT_THAT(fixture_.Hello(11, waiting),
              EffectsAre(Persists(1, JobCreated("digits")),
                         Persists(2, GenerationAssigned("w-1", 1)),
                         Sends(11, Welcome(1))));
  EXPECT_THAT(fixture_.Hello(2),
              Includes(Persists(EpochBegan(1, {"w-1", "w-2"}))));
}

// New workers begin with other state.
TEST_F(AdoptionTest, AWorkerThatWaitsWithTheStateOfAnUnknownJobIsRefused) {
  fixture_.Hello(1);
  protocol::Hello waiting = fixture_.HelloOf(1);
  waiting.held = protocol::HeldState{.epoch = {3}, .steps = 41};
  protocol::Hello newcomer = waiting;
  waiting.generation = {1};
  waiting.secret = fixture_.SecretOf(1);
  waiting.resume = protocol::ResumeState{};
  fixture_.Restart(/*forgotten=*/2);
  int stream = 20;
  for (const auto& hello : {waiting, newcomer}) {
    ++stream;
    EXPECT_THAT(fixture_.Hello(stream, hello),
                Includes(Sends(stream, Refused(StatusCode::kNotFound))));
  }
  fixture_.Hello(2);  // another worker creates the job meanwhile
  EXPECT_THAT(fixture_.Hello(12, waiting),
              Includes(Sends(12, Refused(StatusCode::kNotFound))));
  fixture_.Hello(13, fixture_.HelloOf(1));
  EXPECT_THAT(fixture_.Hello(14, newcomer),
              Not(Includes(Sends(Refused(StatusCode::kNotFound)))))
      << "the job has begun here";
}

TEST_F(AdoptionTest, ButNotBeforeTheOthersCouldOfferTheJob) {
  fixture_.Hello(1);
  protocol::Hello waiting = fixture_.HelloOf(1);
  waiting.held = protocol::HeldState{.epoch = {3}, .steps = 41};
  waiting.generation = {1};
  waiting.secret = fixture_.SecretOf(1);
  waiting.resume = protocol::ResumeState{};
  fixture_.Restart(/*forgotten=*/2, absl::Seconds(2));
  fixture_.Step(TimerExpired{});
  EXPECT_THAT(fixture_.Hello(11, waiting),
              EffectsAre(Closes(11, StatusCode::kUnavailable)));
  fixture_.Wait(3);
  EXPECT_THAT(fixture_.Hello(12, waiting),
              Includes(Sends(12, Refused(StatusCode::kNotFound))));
}

TEST_F(AdoptionTest, ButNotWhileARunningJobOfThatNameIsOffered) {
  RunAndLoseTheCoordinator();
  protocol::Hello waiting = fixture_.HelloOf(3);
  waiting.generation = {1};
  waiting.secret = "of another";
  waiting.resume = protocol::ResumeState{};
  Offer(11, 1);
  EXPECT_THAT(fixture_.Hello(12, waiting),
              EffectsAre(Closes(12, StatusCode::kUnavailable)));
}

// --- The plan
// -----------------------------------------------------------------

TEST_F(AdoptionTest, APlanThatIsCompiledOtherwiseHereEndsNothing) {
  RunAndLoseTheCoordinator();
  for (protocol::Hello& offer : offers_) offer.resume->plan_digest = "feed";
  Offer(11, 1);
  Offer(12, 2);
  Offer(21, 1);
  RegisterOn({21, 12});
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
  EXPECT_TRUE(fixture_.View().parameters.empty());
  EXPECT_THAT(LinesOf(fixture_).back(), HasSubstr("cannot be compiled here"));
  Offer(31, 1);
  RegisterOn({31});
  EXPECT_THAT(fixture_.WaitWithHeartbeats(60, {31, 12}), NoEffects());
  EXPECT_THAT(Asks(fixture_, JobCommand::kRebuild),
              EffectsAre(Answers(7, StatusCode::kFailedPrecondition,
                                 HasSubstr("does not have its plan"))));
  fixture_.Says(31, Stands(13, Phase::kVerdict));
  fixture_.Says(12, protocol::Leave{.steps = 20});
  EXPECT_THAT(fixture_.Says(31, protocol::Leave{.steps = 20}),
              Includes(Persists(JobEnded(record::JobOutcome::kCompleted))));
}

class RevisedAdoptionTest : public AdoptionTest {
 protected:
  RevisedAdoptionTest()
      : AdoptionTest([] {
          JobSpec spec = SpecOf(2);
          spec.buckets = {.first_bytes_max = 1, .bytes_max = 1};
          return spec;
        }()) {}
};

TEST_F(RevisedAdoptionTest, ALaterRevisionIsCompiledAgain) {
  fixture_.RunAll();
  fixture_.Says(1, protocol::ReadyOrder{{2}, {0, 1}});
  ASSERT_EQ(fixture_.durable_job().revision, Revision{2});
  const auto plan = fixture_.core().FindPlan(
      fixture_.job(), fixture_.durable_job().plan_digest);
  EXPECT_EQ(plan::OrderOf(*plan), fixture_.durable_job().observed_order);
  before_ = fixture_.View();
  LoseTheCoordinator();
  offers_[1].resume->revision = {1};  // it had not yet taken the revision over
  offers_[1].resume->plan_digest = "of the first";
  Offer(11, 1);
  Offer(12, 2);
  Offer(21, 1);
  fixture_.Register(21, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_THAT(
      fixture_.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      Includes(Sends(12, PlanReady())));
  EXPECT_EQ(fixture_.View().revision, Revision{2});
  EXPECT_EQ(fixture_.View().buckets, before_.buckets);
}

class NegotiatedAdoptionTest : public AdoptionTest {
 protected:
  NegotiatedAdoptionTest()
      : AdoptionTest([] {
          JobSpec spec = SpecOf(2);
          spec.sync = SyncMode::kNegotiated;
          return spec;
        }()) {}
};

// In negotiated mode the coordinator decides what is reduced, so it needs the
// plan.
TEST_F(NegotiatedAdoptionTest, APlanThatIsCompiledOtherwiseHereIsTheEnd) {
  RunAndLoseTheCoordinator();
  for (protocol::Hello& offer : offers_) offer.resume->plan_digest = "feed";
  Offer(11, 1);
  Offer(12, 2);
  Offer(21, 1);
  fixture_.Register(21, {ParameterNamed("weight"), ParameterNamed("bias")});
  EXPECT_THAT(
      fixture_.Register(12, {ParameterNamed("weight"), ParameterNamed("bias")}),
      FailsJob(12, HasSubstr("the adopted one is feed")));
}

TEST_F(NegotiatedAdoptionTest, PassesGoOn) {
  RunAndLoseTheCoordinator();
  Offer(11, 1);
  Offer(12, 2);
  Offer(21, 1);
  RegisterOn({21, 12});
  for (const uint64_t session : {21, 12}) {
    fixture_.Says(session, protocol::Held{20, {{11, 0, 2}, {11, 0, 0}}});
    fixture_.Says(session, protocol::Announce{12, {0}});
  }
  fixture_.Says(21, protocol::Submitted{12, {0}});
  EXPECT_THAT(fixture_.Says(12, protocol::Submitted{12, {0}}),
              Includes(Sends(12, Decide(22, {{12, 0, 2}, {12, 0, 0}}))));
}

}  // namespace
}  // namespace lockstep::core

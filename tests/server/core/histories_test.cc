// Seeded histories of misbehaving workers, broken streams, stops and restarts
// of the coordinator, with snapshots of its state at random moments, checked by
// promises.h.

#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/core/sim_cluster.h"
#include "tests/support/sanitizers.h"

namespace lockstep::core {
namespace {

constexpr int kWorld = 3;
constexpr int kActors = 4;  // one more than there are ranks
constexpr uint64_t kSteps = 4;

class History {
 public:
  explicit History(int seed)
      : rng_(seed), snapshots_(seed), fault_rate_(1 << seed % 6) {
    StartJob();
  }

  void Run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      if (Pick(100) < 25) PassTime();
      if (snapshots_() % 150 == 0) cluster_.TakeSnapshot();
      if (cluster_.JobIsOver() && Pick(20) == 0) StartJob();
      if (Pick(200) < fault_rate_) {
        Misbehave(SomeActor());
      } else {
        Move(SomeActor());
      }
    }
  }

  // From any state, a job must complete once all workers follow the protocol.
  void ExpectCompletion() {
    const int completed = promises().completed();
    cluster_.HoldCompilations(false);
    for (int round = 0; round < 2000 && promises().completed() == completed;
         ++round) {
      cluster_.Pass(absl::Milliseconds(20));
      cluster_.WakeIfDue();
      if (cluster_.JobIsOver()) StartJob();
      for (Actor& actor : cluster_.actors()) Move(actor);
    }
    EXPECT_GT(promises().completed(), completed)
        << "nothing completes any more";
  }

  std::string LastEvents() const { return cluster_.LastEvents(); }
  const Promises& promises() const { return cluster_.promises(); }
  const SimCluster& cluster() const { return cluster_; }

 private:
  void PassTime() {
    if (Pick(8) == 0) cluster_.HoldCompilations(Pick(2) == 0);
    switch (Pick(60)) {
      case 0: return cluster_.Silence(absl::Milliseconds(Pick(12'000)));
      case 1:
        if (Pick(4) > 0) return;
        cluster_.Pass(absl::Milliseconds(Pick(12'000)));  // it stands still
        return cluster_.WakeIfDue();
      case 2:
        if (Pick(10) == 0) cluster_.Restart();
        return;
      default:
        cluster_.Pass(absl::Milliseconds(Pick(60)));
        if (Pick(3) > 0) cluster_.WakeIfDue();
    }
  }

  void Move(Actor& actor) {
    const bool ended = actor.session.value != 0 && actor.act == Act::kEnded;
    switch (ended ? Pick(8) : 0) {
      default: return cluster_.Move(actor);
      case 1: return cluster_.ComeAgain(actor);
      case 2: return cluster_.Post(actor, protocol::Leave{.clean = false});
      case 3:
        actor.BeginAgain();
        actor.act = Act::kGreeted;
        return cluster_.PostHello(actor.session,
                                  actor.MakeHello(cluster_.spec()));
    }
  }

  void Misbehave(Actor& actor) {
    const Actor other = SomeActor();
    switch (Pick(20)) {
      case 0:
      case 1: return cluster_.CutStream(actor);
      case 2: return cluster_.Greet(actor);  // the old stream is still open
      case 3:
        return cluster_.Post(actor, protocol::LocalFailure{.call = "Submit"});
      case 4:
        return cluster_.Post(actor,
                             protocol::Evidence{.subject = other.name,
                                                .generation = other.generation,
                                                .process = other.process});
      case 5:
        return cluster_.Post(
            actor,
            protocol::Evidence{.subject = other.name,
                               .generation = other.generation,
                               .kind = protocol::EvidenceKind::kPeerReset});
      case 6:
        return cluster_.Post(actor, protocol::Leave{.clean = Pick(2) == 0});
      case 7:
        return cluster_.Post(actor,
                             protocol::Busy{"loading", absl::Seconds(Pick(9))});
      case 8:
        return cluster_.Post(actor, protocol::RegisterChunk{
                                        .index = static_cast<uint32_t>(Pick(3)),
                                        .last = Pick(2) == 0});
      case 9: return cluster_.Post(actor, protocol::Connected{});
      case 10: {
        Actor impostor = other;
        impostor.Die();
        return cluster_.PostHello(cluster_.NewSession(),
                                  impostor.MakeHello(cluster_.spec()));
      }
      case 11:
        if (Pick(3) > 0) return;
        return cluster_.Step(
            StopJob{
                cluster_.NewRequest(), {cluster_.spec().name}, "", "enough"},
            "stop");
      case 12: {
        const SessionId closes = actor.session;
        actor.Die();  // its stream breaks later
        if (closes.value != 0) cluster_.Close(closes);
        return;
      }
      case 13:
        return cluster_.Post(
            actor, protocol::PlanAck{{1}, Pick(2) == 0 ? "feed" : ""});
      case 14:
        return cluster_.SayIn({77}, actor,
                              protocol::LocalFailure{.call = "Finish"});
      case 15:
        return cluster_.PostHello(actor.session,
                                  other.MakeHello(cluster_.spec()));
      case 16:
      case 17:
        actor.heartbeats_only_until =
            cluster_.now() + absl::Milliseconds(Pick(15'000));
        return;
      case 18:
        return cluster_.Step(
            ReportEvidence{cluster_.NewRequest(),
                           {cluster_.spec().name},
                           "",
                           {.subject = other.name,
                            .detail = "gone",
                            .process = other.process}},
            absl::StrCat("launcher: ", other.name.value, " is dead"));
      case 19: return Ask();
    }
  }

  // Posts an operator command. The actors ignore commands; the job keeps them
  // through all other events.
  void Ask() {
    JobCommand command = JobCommand::kRebuild;
    if (Pick(2) == 0) command = JobCommand::kPause;
    if (Pick(3) == 0) command = JobCommand::kResume;
    if (Pick(12) == 0) command = JobCommand::kDrain;
    if (Pick(16) == 0) command = JobCommand::kStop;
    cluster_.Step(
        CommandJob{cluster_.NewRequest(), {cluster_.spec().name}, "", command},
        std::string(Name(command)));
  }

  void StartJob() {
    JobSpec spec = SpecOf(kWorld, absl::StrCat("job-", ++jobs_));
    spec.timeouts.lease = absl::Seconds(4);
    spec.timeouts.join = absl::Seconds(20);
    spec.timeouts.progress = absl::Seconds(7);
    spec.timeouts.connect = absl::Milliseconds(Pick(4) == 0 ? 100 : 6000);
    spec.limits.max_restarts = Pick(8);
    // Small buckets, so that their order matters.
    if (Pick(2) == 0) spec.buckets = {.first_bytes_max = 1, .bytes_max = 1};
    spec.on_stuck = Pick(2) == 0 ? OnStuck::kReport : OnStuck::kEvict;
    cluster_.StartJob(spec);
  }
  Actor& SomeActor() { return cluster_.actors()[Pick(kActors)]; }
  int Pick(int n) { return static_cast<int>(rng_() % n); }

  std::mt19937 rng_;
  std::mt19937 snapshots_;  // of its own: the histories stay as they are
  const int fault_rate_;    // of 200 moves
  SimCluster cluster_{kActors, kSteps};
  int jobs_ = 0;
};

class CoordinatorHistories : public testing::TestWithParam<int> {};

TEST_P(CoordinatorHistories, KeepTheirPromises) {
  History history(GetParam());
  history.Run(2000);
  if (!HasFailure()) history.ExpectCompletion();
  EXPECT_GE(history.promises().epochs(), 2) << "too few epochs to show much";
  if (HasFailure()) ADD_FAILURE() << history.LastEvents();
}

INSTANTIATE_TEST_SUITE_P(Seeds, CoordinatorHistories,
                         testing::Range(0, kUnderSanitizer ? 30 : 200));

// Together the histories cover every cause of an epoch's end.
TEST(CoordinatorHistoriesTest, MeetEveryCause) {
  std::map<protocol::CauseKind, int> causes;
  int starts = 0;
  int later_revisions = 0;
  int completed = 0;
  int replays = 0;
  int roll_forwards = 0;
  int states_compared = 0;
  int recalled = 0;
  int registered_again = 0;
  for (int seed = 1000; seed < 1060 && !HasFailure(); ++seed) {
    History history(seed);
    history.Run(2000);
    for (const auto& [kind, count] : history.promises().causes()) {
      causes[kind] += count;
    }
    starts += history.promises().starts();
    completed += history.promises().completed();
    later_revisions += history.promises().later_revisions();
    replays += history.promises().replays();
    roll_forwards += history.promises().roll_forwards();
    states_compared += history.cluster().states_compared();
    recalled += history.cluster().recalled();
    registered_again += history.cluster().registered_again();
  }
  using protocol::CauseKind;
  for (const CauseKind kind :
       {CauseKind::kProcessDied, CauseKind::kLeaseExpired,
        CauseKind::kStreamLost, CauseKind::kLocalFailure, CauseKind::kMismatch,
        CauseKind::kLeft, CauseKind::kStopped, CauseKind::kReplaced,
        CauseKind::kConnectFailed, CauseKind::kLink}) {
    EXPECT_GT(causes[kind], 0) << "cause " << static_cast<int>(kind);
  }
  EXPECT_GT(starts, 1000);
  EXPECT_GT(completed, 30);
  EXPECT_GT(later_revisions, 30);
  EXPECT_GT(replays, 300);
  EXPECT_GT(roll_forwards, 5);
  EXPECT_GT(states_compared, 400);
  EXPECT_GT(recalled, 3);
  EXPECT_GT(registered_again, 0);
}

}  // namespace
}  // namespace lockstep::core

// Seeded histories of misbehaving workers, cut streams, stops and restarts of
// the coordinator, judged by promises.h.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "tests/server/core/promises.h"
#include "tests/server/core/scene.h"
#include "tests/server/core/troupe.h"

namespace lockstep::core {
namespace {

constexpr int kWorld = 3;
constexpr int kActors = 4;  // one more than there are ranks
constexpr uint64_t kSteps = 4;

class History {
 public:
  explicit History(int seed) : rng_(seed), mischief_(1 << seed % 6) {
    for (int i = 0; i < kActors; ++i) {
      actors_.push_back({.name = W(i), .process = {.host = "a", .pid = i}});
    }
    StartJob();
  }

  void Run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      if (Pick(100) < 25) PassTime();
      if (JobIsOver() && Pick(20) == 0) StartJob();
      if (Pick(200) < mischief_) {
        Misbehave(SomeActor());
      } else {
        Move(SomeActor());
      }
    }
  }

  // From whatever has become of it, a job must come to its end if everybody
  // behaves.
  void Calm() {
    const int completed = promises_.completed();
    for (int round = 0; round < 2000 && promises_.completed() == completed;
         ++round) {
      now_ += absl::Milliseconds(20);
      WakeIfDue();
      if (JobIsOver()) StartJob();
      for (Actor& actor : actors_) Move(actor);
    }
    EXPECT_GT(promises_.completed(), completed) << "nothing completes any more";
  }

  std::string LastEvents() const {
    std::string text;
    for (const std::string& line : log_) absl::StrAppend(&text, line, "\n");
    return text;
  }
  const Promises& promises() const { return promises_; }

 private:
  // --- Time ---
  void PassTime() {
    switch (Pick(60)) {
      case 0: return Silence(absl::Milliseconds(Pick(12'000)));
      case 1:
        if (Pick(4) > 0) return;
        now_ += absl::Milliseconds(Pick(12'000));  // the coordinator stands
        return WakeIfDue();
      case 2:
        if (Pick(10) == 0) Restart();
        return;
      default:
        now_ += absl::Milliseconds(Pick(60));
        if (Pick(3) > 0) WakeIfDue();
    }
  }
  // Nobody says anything, but the coordinator is awake.
  void Silence(absl::Duration duration) {
    const absl::Time until = now_ + duration;
    while (core_->NextWake() <= until) {
      now_ = std::max(now_, core_->NextWake());
      Step(Wake{}, "wake");
    }
    now_ = until;
  }
  void WakeIfDue() {
    if (core_->NextWake() <= now_) Step(Wake{}, "wake");
  }
  void Restart() {
    Log("the coordinator restarts");
    core_ =
        std::make_unique<Coordinator>(CoordinatorOptions{.term = {++term_}});
    for (const record::Record& record : records_) {
      ASSERT_TRUE(core_->Replay(record).ok());
    }
    promises_.Restarted(now_);
    for (Actor& actor : actors_) actor.LoseStream();
  }

  // --- Moves ---
  void Move(Actor& actor) {
    if (actor.session.value == 0) return Greet(actor, NewSession());
    if (actor.act == Act::kEnded) return ComeAgain(actor);
    if (now_ < actor.sulks_until) return Say(actor, protocol::Heartbeat{});
    DataPlane& plane = planes_[{spec_.name, actor.epoch}];
    Say(actor, NextWord(&actor, &plane, kSteps));
  }
  void Greet(Actor& actor, SessionId session) {
    actor.session = session;
    if (actor.act == Act::kOut) actor.act = Act::kGreeted;
    SayHello(session, actor.MakeHello(spec_));
  }
  void ComeAgain(Actor& actor) {
    switch (Pick(4)) {
      case 0: return Say(actor, protocol::EpochReport{actor.position, ""});
      case 1: Say(actor, protocol::Leave{.clean = false}); return;
      case 2: {  // the same life, on the same stream
        actor.epoch = {};
        actor.act = Act::kGreeted;
        protocol::Hello hello = actor.MakeHello(spec_);
        hello.resume.reset();
        return SayHello(actor.session, hello);
      }
      case 3: {
        actor.BeginAgain();
        actor.act = Act::kGreeted;
        return SayHello(actor.session, actor.MakeHello(spec_));
      }
    }
  }

  // --- Mischief ---
  void Misbehave(Actor& actor) {
    const Actor& other = SomeActor();
    switch (Pick(19)) {
      case 0:
      case 1: return CutStream(actor);
      case 2: return Greet(actor, NewSession());  // the old one still open
      case 3: return Say(actor, protocol::LocalFailure{.call = "Submit"});
      case 4:
        return Say(actor, protocol::Evidence{.subject = other.name,
                                             .generation = other.generation});
      case 5:
        return Say(actor, protocol::Evidence{
                              .subject = other.name,
                              .kind = protocol::EvidenceKind::kPeerReset});
      case 6: return Say(actor, protocol::Leave{.clean = Pick(2) == 0});
      case 7:
        return Say(actor, protocol::Busy{"loading", absl::Seconds(Pick(9))});
      case 8:
        return Say(actor, protocol::RegisterChunk{
                              .index = static_cast<uint32_t>(Pick(3)),
                              .last = Pick(2) == 0});
      case 9: return Say(actor, protocol::Connected{});
      case 10: {
        Actor impostor = other;
        impostor.Die();
        return SayHello(NewSession(), impostor.MakeHello(spec_));
      }
      case 11:
        if (Pick(3) > 0) return;
        return Step(StopJob{{++request_}, {spec_.name}, "", "enough"}, "stop");
      case 12: {
        const SessionId closes = actor.session;
        actor.Die();  // its stream breaks a moment later
        if (closes.value != 0) CloseNow(closes);
        return;
      }
      case 13:
        return Say(actor, protocol::PlanAck{{1}, Pick(2) == 0 ? "feed" : ""});
      case 14:
        return SayIn({77}, actor, protocol::LocalFailure{.call = "Finish"});
      case 15: return SayHello(actor.session, other.MakeHello(spec_));
      case 16:
      case 17:
        actor.sulks_until = now_ + absl::Milliseconds(Pick(15'000));
        return;
      case 18:
        return Step(ReportEvidence{{++request_},
                                   {spec_.name},
                                   "",
                                   {.subject = other.name, .detail = "gone"}},
                    absl::StrCat("launcher: ", other.name.value, " is dead"));
    }
  }
  void CutStream(Actor& actor) {
    const SessionId session = actor.session;
    actor.LoseStream();
    if (session.value != 0) CloseNow(session);
  }
  void CloseNow(SessionId session) {
    Step(SessionClosed{session, "cut"}, absl::StrCat("cut ", session.value));
  }

  // --- Steps ---
  void Say(Actor& actor, protocol::ToCoordinatorBody body) {
    SayIn(actor.epoch, actor, std::move(body));
  }
  void SayIn(EpochId epoch, Actor& actor, protocol::ToCoordinatorBody body) {
    if (actor.session.value == 0) return;
    const size_t kind = body.index();
    Step(Received{actor.session, {{spec_.name}, epoch, {}, std::move(body)}},
         absl::StrCat(actor.name.value, " on ", actor.session.value,
                      " says message ", kind, " in epoch ", epoch.value));
  }
  void SayHello(SessionId session, const protocol::Hello& hello) {
    if (session.value == 0) return;
    Step(Received{session, {{spec_.name}, {}, {}, hello}},
         absl::StrCat(hello.worker.value, " on ", session.value,
                      " says Hello of generation ", hello.generation.value));
  }

  void Step(const Event& event, const std::string& what) {
    Log(what);
    const Effects effects = core_->Step(now_, event);
    promises_.Saw(now_, event, effects, *core_);
    Follow(effects);
    for (const Effect& effect : effects) {
      if (const auto* send = std::get_if<Send>(&effect)) {
        Log("  " + Describe(effect));
        if (Actor* actor = OnStream(send->session)) actor->Hear(send->message);
      } else if (const auto* close = std::get_if<CloseSession>(&effect)) {
        Log("  " + Describe(effect));
        if (Actor* actor = OnStream(close->session)) actor->LoseStream();
      }
    }
    // The adapter says that a stream is gone after it was closed.
    for (const Effect& effect : effects) {
      if (const auto* close = std::get_if<CloseSession>(&effect)) {
        EXPECT_TRUE(
            core_->Step(now_, SessionClosed{close->session, "closed"}).empty())
            << "the end of a closed stream is no news";
      }
    }
  }
  // A coordinator that replays the records has promised the same, always.
  void Follow(const Effects& effects) {
    for (const Effect& effect : effects) {
      const auto* persist = std::get_if<Persist>(&effect);
      if (persist == nullptr) continue;
      records_.push_back(persist->record);
      EXPECT_EQ(follower_.Replay(persist->record), absl::OkStatus());
    }
    EXPECT_TRUE(follower_.durable() == core_->durable());
  }

  // --- Questions ---
  bool JobIsOver() const {
    return core_->durable().jobs.at({spec_.name}).ended.has_value();
  }
  void StartJob() {
    spec_ = SpecOf(kWorld, absl::StrCat("job-", ++jobs_));
    spec_.timeouts.lease = absl::Seconds(4);
    spec_.timeouts.join = absl::Seconds(20);
    spec_.timeouts.progress = absl::Seconds(7);
    spec_.timeouts.connect = absl::Milliseconds(Pick(4) == 0 ? 100 : 6000);
    spec_.limits.max_restarts = Pick(8);
    spec_.on_stuck = Pick(2) == 0 ? OnStuck::kReport : OnStuck::kEvict;
    for (Actor& actor : actors_) {
      const SessionId session = actor.session;
      actor.Die();
      if (session.value != 0) CloseNow(session);
    }
    Step(CreateJob{{++request_}, spec_, ""}, "create " + spec_.name);
  }
  Actor* OnStream(SessionId session) {
    for (Actor& actor : actors_) {
      if (actor.session == session) return &actor;
    }
    return nullptr;
  }
  Actor& SomeActor() { return actors_[Pick(kActors)]; }
  SessionId NewSession() { return {++sessions_}; }
  int Pick(int n) { return static_cast<int>(rng_() % n); }
  void Log(const std::string& line) {
    log_.push_back(absl::StrCat(absl::FormatDuration(now_ - absl::UnixEpoch()),
                                " ", line));
    if (log_.size() > 60) log_.pop_front();
  }

  std::mt19937 rng_;
  const int mischief_;  // of 200 moves
  absl::Time now_ = At(0);
  uint64_t term_ = 1;
  std::unique_ptr<Coordinator> core_ =
      std::make_unique<Coordinator>(CoordinatorOptions{});
  Coordinator follower_{CoordinatorOptions{}};
  Promises promises_;
  std::vector<record::Record> records_;
  JobSpec spec_;
  std::vector<Actor> actors_;
  std::map<std::pair<std::string, EpochId>, DataPlane> planes_;
  uint64_t sessions_ = 0;
  uint64_t request_ = 0;
  int jobs_ = 0;
  std::deque<std::string> log_;
};

class CoordinatorHistories : public testing::TestWithParam<int> {};

TEST_P(CoordinatorHistories, KeepTheirPromises) {
  History history(GetParam());
  history.Run(2000);
  if (!HasFailure()) history.Calm();
  EXPECT_GE(history.promises().epochs(), 2) << "too dull to mean much";
  if (HasFailure()) ADD_FAILURE() << history.LastEvents();
}

INSTANTIATE_TEST_SUITE_P(Seeds, CoordinatorHistories, testing::Range(0, 200));

// Together the histories meet everything that may happen to an epoch.
TEST(CoordinatorHistoriesTest, MeetEveryCause) {
  std::map<protocol::CauseKind, int> causes;
  int starts = 0;
  int completed = 0;
  for (int seed = 1000; seed < 1060 && !HasFailure(); ++seed) {
    History history(seed);
    history.Run(2000);
    for (const auto& [kind, count] : history.promises().causes()) {
      causes[kind] += count;
    }
    starts += history.promises().starts();
    completed += history.promises().completed();
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
}

}  // namespace
}  // namespace lockstep::core

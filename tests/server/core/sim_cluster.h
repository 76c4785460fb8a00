// A coordinator, a group of simulated workers, and the promises that check
// their traffic. The test chooses each next event.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_SIM_CLUSTER_H_
#define LOCKSTEP_TESTS_SERVER_CORE_SIM_CLUSTER_H_

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "server/core/coordinator.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/promises.h"
#include "tests/server/core/sim_workers.h"

namespace lockstep::core {

class SimCluster {
 public:
  // Workers w-0, w-1, ...; each trains `steps` steps.
  SimCluster(int actors, uint64_t steps) : steps_(steps) {
    for (int i = 0; i < actors; ++i) {
      actors_.push_back(
          {.name = W(i),
           .process = {
               .host = "a", .pid = i + 1, .boot_id = "boot", .start_time = 1}});
    }
  }

  // Starts a new job, which the workers join as new processes.
  void StartJob(const JobSpec& spec) {
    spec_ = spec;
    for (Actor& actor : actors_) {
      const SessionId session = actor.session;
      actor.Die();
      if (session.value != 0) Close(session);
    }
    Step(CreateJob{{++request_}, spec_, ""}, "create " + spec_.name);
  }

  // --- Actions of a worker ---

  // The next action of a worker by the protocol.
  void Move(Actor& actor) {
    if (actor.session.value == 0) return Greet(actor);
    if (actor.act == Act::kEnded) return Recover(actor);
    if (now_ < actor.heartbeats_only_until)
      return Post(actor, protocol::Heartbeat{});
    const auto plan = core_->FindPlan({spec_.name}, actor.digest);
    if (actor.act == Act::kPlanned && plan != nullptr) actor.Fetch(*plan);
    actor.has_next =
        actor.has_next ||
        core_->FindPlan({spec_.name}, actor.next.digest) != nullptr;
    DataPlane& plane = planes_[{spec_.name, actor.epoch}];
    if (actor.act == Act::kRunning && !actor.holds_state) TakeState(actor);
    if (actor.act == Act::kFormed) CompareStates(actor);
    Post(actor, NextWord(&actor, &plane, steps_));
  }
  // Sends Hello on a new stream, whether the worker has a stream or not.
  void Greet(Actor& actor) {
    actor.session = NewSession();
    if (actor.act == Act::kOut) actor.act = Act::kGreeted;
    PostHello(actor.session, actor.MakeHello(spec_));
  }
  // After its epoch ended: reports, and joins again once there is a decision.
  void Recover(Actor& actor) {
    if (actor.decision) {
      actor.BeginAgainWithState();
      actor.act = Act::kGreeted;
      return PostHello(actor.session, actor.MakeHello(spec_));
    }
    if (actor.reported) return Post(actor, protocol::Heartbeat{});
    actor.reported = true;
    Post(actor, actor.MakeReport());
  }
  // All that begin an epoch with the state have applied the same updates.
  void CompareStates(const Actor& actor) {
    if (!Actor::Contains(actor.holders, actor.rank)) return;
    for (const Actor& other : actors_) {
      if (other.epoch != actor.epoch || other.act == Act::kOut) continue;
      if (!Actor::Contains(other.holders, other.rank)) continue;
      ASSERT_GE(other.updates.size(), actor.first_step);
      EXPECT_TRUE(std::equal(actor.updates.begin(),
                             actor.updates.begin() + actor.first_step,
                             other.updates.begin()))
          << actor.name.value << " and " << other.name.value
          << " have applied different updates";
      ++compared_;
    }
  }
  // The state of a newcomer: that of a member that holds it, which all of them
  // have alike; without any, that of a checkpoint.
  void TakeState(Actor& actor) {
    actor.holds_state = true;
    for (const uint32_t rank : actor.holders) {
      const WorkerName& holder = actor.members[rank].worker;
      for (const Actor& other : actors_) {
        if (other.name != holder || other.epoch != actor.epoch) continue;
        actor.updates = other.updates;
        actor.updates.resize(actor.first_step);
        return;
      }
    }
    actor.updates.assign(actor.first_step, EpochId{});
  }
  // Rejoins after its epoch ended: the same incarnation on the same stream.
  void ComeAgain(Actor& actor) {
    actor.epoch = {};
    actor.act = Act::kGreeted;
    protocol::Hello hello = actor.MakeHello(spec_);
    hello.resume.reset();
    PostHello(actor.session, hello);
  }
  void CutStream(Actor& actor) {
    const SessionId session = actor.session;
    actor.LoseStream();
    if (session.value != 0) Close(session);
  }
  void Post(Actor& actor, protocol::ToCoordinatorBody body) {
    SayIn(actor.epoch, actor, std::move(body));
  }
  void SayIn(EpochId epoch, Actor& actor, protocol::ToCoordinatorBody body) {
    if (actor.session.value == 0) return;
    const size_t kind = body.index();
    Step(MessageReceived{actor.session,
                         {{spec_.name}, epoch, {}, std::move(body)}},
         absl::StrCat(actor.name.value, " on ", actor.session.value,
                      " says message ", kind, " in epoch ", epoch.value));
  }
  void PostHello(SessionId session, const protocol::Hello& hello) {
    if (session.value == 0) return;
    Step(MessageReceived{session, {{spec_.name}, {}, {}, hello}},
         absl::StrCat(hello.worker.value, " on ", session.value,
                      " says Hello of generation ", hello.generation.value));
  }

  // --- Events for the coordinator ---

  void Close(SessionId session) {
    Step(SessionClosed{session, "cut"}, absl::StrCat("cut ", session.value));
  }
  void Pass(absl::Duration duration) { now_ += duration; }
  void WakeIfDue() {
    if (core_->NextWake() <= now_) Step(TimerExpired{}, "wake");
  }
  // No worker sends anything, but the coordinator handles its wakes.
  void Silence(absl::Duration duration) {
    const absl::Time until = now_ + duration;
    while (core_->NextWake() <= until) {
      now_ = std::max(now_, core_->NextWake());
      Step(TimerExpired{}, "wake");
    }
    now_ = until;
  }
  void Restart() {
    Log("the coordinator restarts");
    ++term_;
    core_ = std::make_unique<Coordinator>(CoordinatorOptions{
        .term = {term_}, .secret_seed = absl::StrCat("seed ", term_)});
    if (snapshot_) core_->Restore(*StateOf(*snapshot_));
    for (const record::Record& record : records_) {
      if (snapshot_ && record.number <= snapshot_->records) continue;
      ASSERT_TRUE(core_->Replay(record).ok());
    }
    EXPECT_TRUE(core_->durable() == follower_->durable())
        << "the replay differs from the live state";
    compilations_.clear();  // the compile threads ended with the coordinator
    promises_.Restarted(now_);
    for (Actor& actor : actors_) actor.LoseStream();
  }
  // From now on a restart begins with a snapshot of the present state, and so
  // does the follower.
  void TakeSnapshot() {
    snapshot_ = SnapshotOf(core_->durable());
    follower_ = std::make_unique<Coordinator>(CoordinatorOptions{});
    follower_->Restore(*StateOf(*snapshot_));
    EXPECT_TRUE(follower_->durable() == core_->durable());
  }
  RequestId NewRequest() { return {++request_}; }
  SessionId NewSession() { return {++sessions_}; }

  void Step(const Event& event, std::string what) {
    Effects effects = core_->Step(now_, event);
    promises_.Saw(now_, event, effects, *core_);
    Follow(effects);
    Deliver(effects);
    Log(std::move(what), std::move(effects));
    if (!hold_compilations_) FinishCompilations();
  }

  // Plans are compiled at once, unless compilations are held.
  void HoldCompilations(bool hold) {
    hold_compilations_ = hold;
    if (!hold) FinishCompilations();
  }
  void FinishCompilations() {
    for (const Compile& compile : std::exchange(compilations_, {})) {
      Step(Compiled{compile.id, compile.job,
                    MakePlan(*compile.input, Digests())},
           "compiled");
    }
  }

  // --- Queries -----
  bool JobIsOver() const {
    return core_->durable().jobs.at({spec_.name}).ended.has_value();
  }
  const JobSpec& spec() const { return spec_; }
  std::vector<Actor>& actors() { return actors_; }
  const Coordinator& core() const { return *core_; }
  absl::Time now() const { return now_; }
  const Promises& promises() const { return promises_; }
  int states_compared() const { return compared_; }
  // Plans that a member gave back to a restarted coordinator, and epochs whose
  // members were asked to register again.
  int recalled() const { return recalled_; }
  int registered_again() const { return registered_again_; }
  std::string LastEvents() const {
    std::string text;
    for (const Line& line : log_) {
      absl::StrAppend(&text, absl::FormatDuration(line.when - At(0)), " ",
                      line.what, "\n");
      for (const Effect& effect : line.effects) {
        if (!std::holds_alternative<core::Note>(effect)) {
          absl::StrAppend(&text, "    ", Describe(effect), "\n");
        }
      }
    }
    return text;
  }

 private:
  // A cheap codec, since every order of events compiles plans.
  PlanCodec Digests() {
    return {.bytes =
                [this](const plan::Plan& plan) {
                  std::string digest = plan::DigestOf(plan);
                  plans_.try_emplace(digest, plan);
                  return digest;
                },
            .parse = [this](const std::string& digest)
                -> absl::StatusOr<plan::Plan> { return plans_.at(digest); }};
  }

  struct Line {
    absl::Time when;
    std::string what;
    Effects effects;
  };

  // A coordinator that replays the records must have made the same promises.
  void Follow(const Effects& effects) {
    bool wrote = false;
    for (const Effect& effect : effects) {
      if (const auto* compile = std::get_if<Compile>(&effect)) {
        compilations_.push_back(*compile);
      }
      const auto* persist = std::get_if<Persist>(&effect);
      if (persist == nullptr) continue;
      wrote = true;
      records_.push_back(persist->record);
      EXPECT_EQ(follower_->Replay(persist->record), absl::OkStatus());
    }
    EXPECT_TRUE(!wrote || follower_->durable() == core_->durable());
  }

  void Deliver(const Effects& effects) {
    for (const Effect& effect : effects) {
      if (const auto* note = std::get_if<Note>(&effect)) {
        recalled_ += absl::StrContains(note->text, "has sent the plan again");
        registered_again_ +=
            absl::StrContains(note->text, "all members register again");
      } else if (const auto* send = std::get_if<Send>(&effect)) {
        if (Actor* actor = OnStream(send->session))
          actor->Receive(send->message);
      } else if (const auto* close = std::get_if<CloseSession>(&effect)) {
        if (Actor* actor = OnStream(close->session)) actor->LoseStream();
      }
    }
    // The adapter reports the end of each stream that the coordinator closed.
    for (const Effect& effect : effects) {
      if (const auto* close = std::get_if<CloseSession>(&effect)) {
        EXPECT_TRUE(
            core_->Step(now_, SessionClosed{close->session, "closed"}).empty())
            << "the end of a closed stream is no news";
      }
    }
  }

  Actor* OnStream(SessionId session) {
    for (Actor& actor : actors_) {
      if (actor.session == session) return &actor;
    }
    return nullptr;
  }
  void Log(std::string what, Effects effects = {}) {
    log_.push_back({now_, std::move(what), std::move(effects)});
    if (log_.size() > 60) log_.pop_front();
  }

  const uint64_t steps_;
  absl::Time now_ = At(0);
  uint64_t term_ = 1;
  std::unique_ptr<Coordinator> core_ =
      std::make_unique<Coordinator>(CoordinatorOptions{});
  std::unique_ptr<Coordinator> follower_ =
      std::make_unique<Coordinator>(CoordinatorOptions{});
  Promises promises_;
  std::vector<record::Record> records_;
  std::optional<record::StateSnapshot> snapshot_;
  bool hold_compilations_ = false;
  std::vector<Compile> compilations_;
  JobSpec spec_;
  std::map<std::string, plan::Plan> plans_;  // compiled, by digest
  std::vector<Actor> actors_;
  std::map<std::pair<std::string, EpochId>, DataPlane> planes_;
  int compared_ = 0;
  int recalled_ = 0;
  int registered_again_ = 0;
  uint64_t sessions_ = 0;
  uint64_t request_ = 0;
  std::deque<Line> log_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_SIM_CLUSTER_H_

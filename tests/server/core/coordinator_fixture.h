// A coordinator under test, with numbered workers and simulated time. After
// every event, a second coordinator that replayed the records must have made
// the same promises.
//
// Worker i is called "w-i", runs as pid 100+i on host "a" and uses stream i,
// unless a test chooses otherwise.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_COORDINATOR_FIXTURE_H_
#define LOCKSTEP_TESTS_SERVER_CORE_COORDINATOR_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "tests/server/core/effect_list.h"

namespace lockstep::core {

inline absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

inline JobSpec SpecOf(int world, const std::string& name = "digits") {
  JobSpec spec{.name = name, .mesh = {{{"data", world}}}};
  spec.timeouts.lease = absl::Seconds(10);
  spec.timeouts.resume = absl::Seconds(1);
  spec.timeouts.join = absl::Seconds(60);
  spec.timeouts.progress = absl::Seconds(30);
  spec.timeouts.connect = absl::Seconds(20);
  return spec;
}

// The spec of a job that may restart.
inline JobSpec RestartingSpec(int world, int max_restarts = 5) {
  JobSpec spec = SpecOf(world);
  spec.limits.max_restarts = max_restarts;
  return spec;
}

inline WorkerName W(int i) { return {absl::StrCat("w-", i)}; }

inline protocol::Progress Stands(uint64_t step, protocol::Phase phase) {
  return {.position = {step, phase}};
}

inline Parameter ParameterNamed(const std::string& name) {
  return {.name = name, .shape = {4, 2}};
}

class CoordinatorFixture {
 public:
  explicit CoordinatorFixture(JobSpec spec = SpecOf(2))
      : spec_(std::move(spec)) {}

  // --- Events ---
  // Each applies one event and returns the requested effects.
  EffectList Step(const Event& event) {
    effects_ = core_->Step(now_, event);
    Follow();
    KeepSecrets();
    if (!hold_compilations_) FinishCompilations();
    return {effects_};
  }

  // Plans are compiled at once, unless held until FinishCompilations.
  void HoldCompilations() { hold_compilations_ = true; }
  // The input of the newest held compilation.
  const CompileInput& held_input() const { return *compilations_.back().input; }
  // Appends the effects of the compilations to those of the last event.
  EffectList FinishCompilations() {
    Effects all = std::move(effects_);
    for (const Compile& compile : std::exchange(compilations_, {})) {
      effects_ = core_->Step(
          now_, Compiled{compile.id, compile.job, MakePlan(*compile.input)});
      Follow();
      all.insert(all.end(), effects_.begin(), effects_.end());
    }
    effects_ = std::move(all);
    return {effects_};
  }
  size_t compilations() const { return compilations_.size(); }

  protocol::Hello HelloOf(int i) const {
    return {.worker = W(i),
            .incarnation = static_cast<uint64_t>(1000 + i),
            .spec = spec_,
            .process = ProcessOf(i)};
  }
  static protocol::ProcessInfo ProcessOf(int i) {
    return {.host = "a",
            .pid = 100 + i,
            .boot_id = "boot",
            .start_time = static_cast<uint64_t>(500 + i)};
  }
  // The secret of worker i's newest Welcome.
  std::string SecretOf(int i) const { return secrets_.at(W(i)); }
  // Proof that worker i, of its first generation, is dead.
  static protocol::Evidence DeathOf(int i, const std::string& detail) {
    return {.subject = W(i), .detail = detail, .process = ProcessOf(i)};
  }
  // Worker i, of generation 1, reset a data connection.
  static protocol::Evidence ResetBy(int i, const std::string& detail = "") {
    return {.subject = W(i),
            .generation = {1},
            .kind = protocol::EvidenceKind::kPeerReset,
            .detail = detail};
  }
  EffectList Hello(int i) { return Hello(i, HelloOf(i)); }
  // A Hello that resumes carries the worker's secret, unless it has another.
  EffectList Hello(uint64_t session, protocol::Hello hello) {
    greeters_[{session}] = hello.worker;
    if (hello.generation.value != 0 && hello.secret.empty()) {
      hello.secret = secrets_[hello.worker];
    }
    return Says(session, std::move(hello), EpochId{});
  }
  // A worker resumes on another stream.
  EffectList Resume(uint64_t session, int i, uint64_t generation = 1) {
    protocol::Hello hello = HelloOf(i);
    hello.generation = {generation};
    hello.resume = protocol::ResumeState{.epoch = epoch()};
    return Hello(session, hello);
  }
  EffectList Says(uint64_t session, protocol::ToCoordinatorBody body) {
    return Says(session, std::move(body), epoch());
  }
  EffectList Says(uint64_t session, protocol::ToCoordinatorBody body,
                  EpochId epoch) {
    return Step(
        MessageReceived{{session}, {job(), epoch, {1}, std::move(body)}});
  }
  EffectList Closes(uint64_t session, const std::string& why = "reset") {
    return Step(SessionClosed{{session}, why});
  }
  // Advances time, waking the coordinator whenever it asked to be, and returns
  // the requested effects.
  EffectList Wait(double seconds) {
    const absl::Time until = now_ + absl::Seconds(seconds);
    EffectList requested;
    while (core_->NextWake() <= until) {
      now_ = std::max(now_, core_->NextWake());
      requested += Step(TimerExpired{});
      EXPECT_GT(core_->NextWake(), now_) << "would spin";
    }
    now_ = until;
    return requested;
  }
  // As Wait, with heartbeats of these streams every second.
  EffectList WaitWithHeartbeats(int seconds,
                                const std::vector<uint64_t>& sessions) {
    EffectList requested;
    for (int second = 0; second < seconds; ++second) {
      for (const uint64_t session : sessions) {
        Says(session, protocol::Heartbeat{});
      }
      requested += Wait(1);
    }
    return requested;
  }

  // --- Sequences of events ---
  void JoinAll() {
    for (int i = 0; i < world(); ++i) Hello(i + first_session_);
  }
  EffectList Register(uint64_t session, std::vector<Parameter> parameters) {
    return Says(session,
                protocol::RegisterChunk{
                    .index = 0, .last = true, .parameters = parameters});
  }
  void RegisterAll() {
    for (const uint64_t session : Sessions()) {
      Register(session, {ParameterNamed("weight"), ParameterNamed("bias")});
    }
  }
  EffectList Ack(uint64_t session) {
    const DurableJob& durable = durable_job();
    return Says(session,
                protocol::PlanAck{durable.revision, durable.plan_digest});
  }
  // A handle for each communicator that the rank is a member of.
  protocol::PublishHandles HandlesOf(int rank) const {
    const auto plan = core_->FindPlan(job(), durable_job().plan_digest);
    protocol::PublishHandles publish;
    for (size_t c = 0; c < plan->communicators.size(); ++c) {
      for (const int member : plan->communicators[c].ranks) {
        if (member == rank) {
          publish.handles.push_back(
              {static_cast<int>(c), absl::StrCat("h", rank)});
        }
      }
    }
    return publish;
  }
  EffectList Publish(uint64_t session, int rank) {
    return Says(session, HandlesOf(rank));
  }
  // From an empty job to a running epoch.
  void RunAll() {
    JoinAll();
    ConnectAll();
  }
  void ConnectAll() {
    RegisterAll();
    for (const uint64_t session : Sessions()) Ack(session);
    int rank = 0;
    for (const uint64_t session : Sessions()) Publish(session, rank++);
    for (const uint64_t session : Sessions()) {
      Says(session, protocol::Connected{});
    }
    EXPECT_EQ(View().state, JobState::kRunning);
  }

  // --- Queries -----
  JobName job() const { return {spec_.name}; }
  const JobSpec& spec() const { return spec_; }
  JobSpec& spec() { return spec_; }
  int world() const { return spec_.mesh.WorldSize(); }
  std::vector<uint64_t> Sessions() const {
    std::vector<uint64_t> sessions;
    for (int i = 0; i < world(); ++i) sessions.push_back(i + first_session_);
    return sessions;
  }
  const DurableJob& durable_job() const {
    return core_->durable().jobs.at(job());
  }
  EpochId epoch() const {
    const auto found = core_->durable().jobs.find(job());
    return found == core_->durable().jobs.end() ? EpochId{}
                                                : found->second.epoch;
  }
  JobView View() const { return *core_->Describe(job(), now_); }
  WorkerView ViewOf(int i) const {
    for (const WorkerView& worker : View().workers) {
      if (worker.name == W(i)) return worker;
    }
    ADD_FAILURE() << W(i).value << " is not there";
    return {};
  }
  Coordinator& core() { return *core_; }
  absl::Time now() const { return now_; }
  void Pass(double seconds) { now_ += absl::Seconds(seconds); }
  const Effects& effects() const { return effects_; }
  std::vector<record::Record> records() const { return records_; }

  // Replaces the coordinator by one of the next term, which replays the records
  // except the last `forgotten`, which were not durable.
  void Restart(size_t forgotten = 0,
               absl::Duration adoption_window = absl::ZeroDuration()) {
    records_.resize(records_.size() - forgotten);
    compilations_.clear();  // the compile threads ended with the coordinator
    ++term_;
    core_ = std::make_unique<Coordinator>(
        CoordinatorOptions{.term = {term_},
                           .adoption_window = adoption_window,
                           .secret_seed = absl::StrCat("seed ", term_)});
    follower_ = std::make_unique<Coordinator>(CoordinatorOptions{});
    for (const record::Record& record : records_) {
      EXPECT_EQ(core_->Replay(record), absl::OkStatus());
      EXPECT_EQ(follower_->Replay(record), absl::OkStatus());
    }
  }

 private:
  void Follow() {
    for (const Effect& effect : effects_) {
      if (const auto* persist = std::get_if<Persist>(&effect)) {
        records_.push_back(persist->record);
        EXPECT_EQ(follower_->Replay(persist->record), absl::OkStatus());
      } else if (const auto* compile = std::get_if<Compile>(&effect)) {
        compilations_.push_back(*compile);
      }
    }
    EXPECT_TRUE(follower_->durable() == core_->durable())
        << "the records do not replay to what was promised";
  }

  void KeepSecrets() {
    for (const Effect& effect : effects_) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      const auto* welcome = std::get_if<protocol::Welcome>(&send->message.body);
      const auto greeter = greeters_.find(send->session);
      if (welcome == nullptr || greeter == greeters_.end()) continue;
      if (!welcome->secret.empty()) secrets_[greeter->second] = welcome->secret;
    }
  }

  static constexpr int first_session_ = 1;

  JobSpec spec_;
  absl::Time now_ = At(0);
  uint64_t term_ = 1;
  std::unique_ptr<Coordinator> core_ =
      std::make_unique<Coordinator>(CoordinatorOptions{});
  std::unique_ptr<Coordinator> follower_ =
      std::make_unique<Coordinator>(CoordinatorOptions{});
  Effects effects_;
  bool hold_compilations_ = false;
  std::vector<Compile> compilations_;
  std::vector<record::Record> records_;
  std::map<SessionId, WorkerName> greeters_;
  std::map<WorkerName, std::string> secrets_;  // from the newest Welcome
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_COORDINATOR_FIXTURE_H_

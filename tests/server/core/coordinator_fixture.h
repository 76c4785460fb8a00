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

JobSpec SpecOf(int world, const std::string& name = "digits");

// The spec of a job that may restart.
JobSpec RestartingSpec(int world, int max_restarts = 5);

inline WorkerName W(int i) { return {absl::StrCat("w-", i)}; }

inline protocol::Progress Stands(uint64_t step, protocol::Phase phase) {
  return {.position = {step, phase}};
}

Parameter ParameterNamed(const std::string& name);

class CoordinatorFixture {
 public:
  explicit CoordinatorFixture(JobSpec spec = SpecOf(2),
                              const LimitValues& limits = {});
  ~CoordinatorFixture();

  // --- Events ---
  // Each applies one event and returns the requested effects.
  EffectList Step(const Event& event);

  // Plans are compiled at once, unless held until FinishCompilations.
  void HoldCompilations() { hold_compilations_ = true; }
  // The input of the newest held compilation.
  const CompileInput& held_input() const { return *compilations_.back().input; }
  // Appends the effects of the compilations to those of the last event.
  EffectList FinishCompilations();
  size_t compilations() const { return compilations_.size(); }

  protocol::Hello HelloOf(int i) const;
  static protocol::ProcessInfo ProcessOf(int i);
  // The secret of worker i's newest Welcome.
  std::string SecretOf(int i) const { return secrets_.at(W(i)); }
  // Proof that worker i, of its first generation, is dead.
  static protocol::Evidence DeathOf(int i, const std::string& detail);
  // Worker i, of generation 1, reset a data connection.
  static protocol::Evidence ResetBy(int i, const std::string& detail = "");
  EffectList Hello(int i);
  // As the survivor of the first epoch.
  EffectList JoinsAgain(int i);
  // A Hello that resumes carries the worker's secret, unless it has another.
  EffectList Hello(uint64_t session, protocol::Hello hello);
  // A worker resumes on another stream.
  EffectList Resume(uint64_t session, int i, uint64_t generation = 1);
  EffectList Says(uint64_t session, protocol::ToCoordinatorBody body);
  EffectList Says(uint64_t session, protocol::ToCoordinatorBody body,
                  EpochId epoch);
  EffectList Closes(uint64_t session, const std::string& why = "reset");
  // Advances time, waking the coordinator whenever it asked to be, and returns
  // the requested effects.
  EffectList Wait(double seconds);
  // As Wait, with heartbeats of these streams every second.
  EffectList WaitWithHeartbeats(int seconds,
                                const std::vector<uint64_t>& sessions);

  // --- Sequences of events ---
  void JoinAll();
  EffectList Register(uint64_t session, std::vector<Parameter> parameters);
  void RegisterAll();
  EffectList Ack(uint64_t session);
  // A handle for each communicator that the rank is a member of.
  protocol::PublishHandles HandlesOf(int rank) const;
  EffectList Publish(uint64_t session, int rank);
  // The plan as a worker has it, in one part: the answer to PlanWanted. Call it
  // before Restart.
  protocol::PlanPart PlanAsPart() const;
  // From an empty job to a running epoch.
  void RunAll();
  void ConnectAll();
  // Once all have registered.
  void Connect();

  // --- Queries -----
  JobName job() const { return {spec_.name}; }
  const JobSpec& spec() const { return spec_; }
  JobSpec& spec() { return spec_; }
  int world() const { return spec_.mesh.WorldSize(); }
  std::vector<uint64_t> Sessions() const;
  const DurableJob& durable_job() const;
  EpochId epoch() const;
  JobView View() const;
  WorkerView ViewOf(int i) const;
  // The sentences of View().stalls.
  std::vector<std::string> Stalls() const;
  Coordinator& core() { return *core_; }
  absl::Time now() const { return now_; }
  void Pass(double seconds) { now_ += absl::Seconds(seconds); }
  const Effects& effects() const { return effects_; }
  std::vector<record::Record> records() const { return records_; }

  // Replaces the coordinator by one of the next term, which replays the records
  // except the last `forgotten`, which were not durable.
  void Restart(size_t forgotten = 0,
               absl::Duration adoption_window = absl::ZeroDuration());

 private:
  void Follow();
  void KeepSecrets();

  static constexpr int first_session_ = 1;

  JobSpec spec_;
  absl::Time now_ = At(0);
  uint64_t term_ = 1;
  std::unique_ptr<Coordinator> core_;
  std::unique_ptr<Coordinator> follower_;  // replays the records
  Effects effects_;
  bool hold_compilations_ = false;
  std::vector<Compile> compilations_;
  std::vector<record::Record> records_;
  std::map<SessionId, WorkerName> greeters_;
  std::map<WorkerName, std::string> secrets_;  // from the newest Welcome
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_COORDINATOR_FIXTURE_H_

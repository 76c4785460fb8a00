// Workers and a coordinator, both real state machines, joined by a network that
// delays, cuts and reorders streams; all from one seed and without threads.
//
//   SimWorker ─ session::Machine ─┐                ┌─ core::Coordinator
//   SimWorker ─ session::Machine ─┼─ streams ──────┤      │ crash, replay
//   SimWorker ─ session::Machine ─┘                └─ records
//
// As in TCP, nothing within a stream is lost or reordered. A cut loses the data
// in flight, and both ends notice it at different times, so the Hello of a new
// stream may arrive before the end of the old one.

#ifndef LOCKSTEP_TESTS_SIM_SESSION_WORLD_H_
#define LOCKSTEP_TESTS_SIM_SESSION_WORLD_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/session/machine.h"
#include "server/core/coordinator.h"
#include "tests/sim/event_queue.h"

namespace lockstep::sim {

// The faults of a history.
struct Faults {
  // Intervals between cuts of each worker's stream; zero: never. Cuts of one
  // worker are at least 0.7 s apart.
  absl::Duration mean_between_cuts = absl::ZeroDuration();
  // Only while all train: a worker's regular Leave is not journaled, so a crash
  // between two Leaves ends the job as failed.
  int coordinator_crashes = 0;
  // Another coordinator takes over without a record of the job, which an
  // operator may create again. Only while all run.
  bool journal_is_lost = false;
  absl::Duration outage_max = absl::Milliseconds(800);
  int worker_crashes = 0;  // each rejoins under its name
  bool one_is_missing = false;
  bool one_fails_locally = false;
  bool one_registers_otherwise = false;
};

class SessionWorld;

// One worker's program: joins, agrees on the plan, trains in step with the
// others, leaves; joins again when an epoch ends and the job continues.
class SimWorker {
 public:
  SimWorker(SessionWorld* world, std::string name)
      : world_(world), name_(std::move(name)) {}

  void StartLife();
  void Crash();

  // The worker's newest incarnation.
  const session::View& view() const { return machine_->view(); }
  const std::string& name() const { return name_; }
  bool alive() const { return machine_ != nullptr; }
  // The program has ended.
  bool done() const { return done_; }
  bool trained_all() const { return trained_all_; }
  // When it reported its progress while running.
  const std::vector<absl::Time>& pulses() const { return pulses_; }

  bool registers_otherwise = false;
  bool fails_locally = false;

 private:
  friend class SessionWorld;

  void Apply(const session::Event& event);
  void Do(const session::Effect& effect);
  // Schedules the program's action in its present stage.
  void Live();
  void Once(int stage, std::function<void()> act);
  void Register();
  void FetchPlan();
  void ConnectData();
  void Train();
  void PassStep();
  void EndLife();
  // The step of this incarnation in the job's numbering.
  uint64_t JobStep() const { return view().first_step + step_; }

  SessionWorld* const world_;
  const std::string name_;
  std::unique_ptr<session::Machine> machine_;
  uint64_t life_ = 0;
  uint64_t incarnation_ = 0;  // events of earlier ones are void
  int stage_ = 0;             // the program's progress in this incarnation
  uint64_t step_ = 0;
  bool done_ = false;
  bool trained_all_ = false;
  absl::Time wake_ = absl::InfiniteFuture();
  std::map<uint64_t, uint64_t> streams_;  // by the machine's number: ours
  std::vector<absl::Time> pulses_;
};

class SessionWorld {
 public:
  static constexpr uint64_t kSteps = 40;

  SessionWorld(uint64_t seed, int workers, const Faults& faults,
               int max_restarts);
  ~SessionWorld();

  // Runs until all workers are done, or a time limit.
  void Run();

  const std::deque<SimWorker>& workers() const { return workers_; }
  core::Coordinator& coordinator() { return *coordinator_; }
  absl::Time now() const { return events_.now(); }
  // The newest events, in order; printed when a promise was broken.
  std::string Story() const;

 private:
  friend class SimWorker;

  // A stream; its two ends may notice its end at different times.
  struct Stream {
    SimWorker* worker;
    uint64_t incarnation;
    uint64_t number;         // in the machine
    bool worker_end = true;  // open from the worker's view
    bool coordinator_end = false;
    bool cut = false;           // nothing arrives after it
    absl::Time to_coordinator;  // when its last message arrives
    absl::Time to_worker;
  };

  // --- Random draws ---
  absl::Duration Draw(absl::Duration max);
  bool Toss(double probability);
  SimWorker& SomeWorker();
  // How long a worker computes in one step: in some histories at times longer
  // than leases, so that no step shows that it lives.
  absl::Duration ComputeTime();

  // --- Network ---
  void Open(SimWorker* worker, uint64_t number);
  void ToCoordinator(uint64_t stream, protocol::ToCoordinator message);
  void ToWorker(uint64_t stream, protocol::ToWorker message);
  void EndAtWorker(uint64_t stream, absl::Status status);
  void EndAtCoordinator(uint64_t stream);
  void Cut(uint64_t stream);

  // --- The coordinator ---
  void Apply(const core::Event& event);
  void Do(const core::Effect& effect);
  void CrashCoordinator();
  void StartCoordinator();
  void WakeCoordinator();

  // --- Faults and steps ---
  void PlanFaults(const Faults& faults);
  void PlanCuts(SimWorker* worker, absl::Duration mean);
  bool AnyHasTrainedAll() const;
  bool MayCrashNow() const;
  void ArriveAtStep(SimWorker* worker);
  void Note(std::string line);

  std::mt19937_64 random_;
  bool computes_long_ = false;
  EventQueue events_;
  JobSpec spec_;
  std::deque<SimWorker> workers_;
  std::unique_ptr<core::Coordinator> coordinator_;
  absl::Time coordinator_wake_ = absl::InfiniteFuture();
  uint64_t coordinators_ = 0;  // started so far
  bool crash_in_next_step_ = false;
  bool journal_is_lost_ = false;
  absl::Duration outage_;
  std::vector<record::Record> records_;
  std::map<uint64_t, Stream> streams_;
  uint64_t last_stream_ = 0;
  uint64_t last_life_ = 0;
  // By epoch and step: the workers that have entered it, with their
  // incarnation.
  std::map<std::pair<uint64_t, uint64_t>,
           std::vector<std::pair<SimWorker*, uint64_t>>>
      arrived_;
  std::deque<std::string> story_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SESSION_WORLD_H_

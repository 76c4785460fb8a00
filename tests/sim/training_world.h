// Training as one simulation in one thread, from one seed: coordinators,
// workers and their plans, a network, a data plane, a disk, and the faults of
// all.
//
//   Trainer ─ session::Machine ─┐ ControlNetwork ┌─ SimDaemon ─
//   core::Coordinator Trainer ─ StepAgreement     ├────────────────┤   │
//   DurabilityGate Trainer ─ plan              │                │   └─
//   SimJournal ─ SimDisk
//      └──────── DataPlane ─────┘                └─ crash, replay
//
// Everything but the boxes on the outside is the product's code. After each
// event the world's promises hold, or `violations` says which did not:
//
//   * ranks accept one digest for each revision of an epoch
//   * the members of a collective are in one epoch, revision, plan and step
//   * an applied update is the sum of the step's samples, each once, and
//     nothing of another step or epoch
//   * ranks that begin an epoch with the state have the same updates, bit for
//     bit; so have all that complete the training
//   * the number of a step lives across epochs
//   * nothing is sent to a worker before it is durable
//   * a replay of the journal gives the live state; so does a restart
//   * only the newest process of a worker is welcomed, with its secret; one
//   that
//     is proven dead is dead
//   * once faults have ended the training completes

#ifndef LOCKSTEP_TESTS_SIM_TRAINING_WORLD_H_
#define LOCKSTEP_TESTS_SIM_TRAINING_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "lockstep/samples.h"
#include "tests/sim/control_network.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/sim_daemon.h"
#include "tests/sim/sim_journal.h"
#include "tests/sim/trainer.h"
#include "tests/sim/training_history.h"

namespace lockstep::sim {

// The faults of one history; times are simulated.
struct TrainingFaults {
  absl::Duration until = absl::Seconds(3);  // none later
  int worker_crashes = 0;
  double silent_crash = 0.3;  // the probability that a whole machine is gone
  // The time until a crashed worker starts again, at most.
  absl::Duration restart_max = absl::Seconds(1);
  int worker_stops = 0;  // SIGSTOP, for up to 3 s
  // A worker is stopped, and another process is started under its name.
  int worker_moves = 0;
  int impostors = 0;  // say Hello in the name of a worker
  int coordinator_crashes = 0;
  double machine_crash = 0.5;  // the coordinator's machine: unsynced is lost
  int coordinator_stops = 0;
  absl::Duration mean_between_cuts;  // of each worker's stream; zero: never
  double late = 0.3;     // the probability that only the worker's end is cut
  int partitions = 0;    // of one worker, one way or both
  int broken_links = 0;  // of the data plane
  int local_failures = 0;
  // At the moments that decide: when one rank has passed a step and others may
  // not have, when that step was the last one, also after `until`, and while
  // the recovery from the end of an epoch goes on.
  int at_verdicts = 0;
  int at_last_steps = 0;
  int in_recoveries = 0;
  absl::Duration sync_max = absl::Milliseconds(10);
  bool skewed_clocks = false;
};

// How a worker's process dies, and who notices.
struct Death {
  bool machine = false;   // the whole machine is gone: silence
  bool seen = false;      // survivors have a pidfd: proof
  bool reported = false;  // its launcher reports it: proof
};

struct TrainingOptions {
  uint64_t seed = 1;
  Mesh mesh = {{{"data", 3}}};
  bool is_elastic = false;  // over the first axis
  int spares = 0;
  uint64_t steps = 20;
  TrainingFaults faults;
  bool story = false;  // keep it; slow
  // Nothing is drawn: all latencies are equal, but that this rank sees the end
  // of each collective late (-1: none does).
  bool is_regular = false;
  int slow_rank = -1;
};

class TrainingWorld final : public StreamServer {
 public:
  explicit TrainingWorld(const TrainingOptions& options);
  ~TrainingWorld() override;

  // Runs until the job is over at all workers, or a promise is broken.
  void Run();
  // Runs one event; false if nothing is left to do.
  bool RunOne();
  void StopFaults() { faults_ended_ = true; }
  // The promises about the end, once RunOne has returned false.
  void CheckEnd();

  // --- Faults, also those of a test ---
  void CrashWorker(int worker, const Death& death);
  void CrashCoordinator(bool machine);

  // --- Results ---
  const std::vector<std::string>& violations() const { return violations_; }
  std::string Story() const;
  bool completed() const;
  bool AllDone() const;
  uint64_t events_run() const { return events_run_; }
  const core::DurableJob* job() const;
  // The newest process of each worker.
  const std::vector<std::shared_ptr<Trainer>>& trainers() const {
    return trainers_;
  }
  struct Counts {
    int epochs = 0;
    int replays = 0;
    int roll_forwards = 0;
    int restores = 0;
    int received = 0;  // newcomers that took the state from others
    int switched = 0;  // to a later revision
    int failed_jobs = 0;
    int smaller = 0;   // epochs of fewer ranks than the mesh has
    int grown = 0;     // ranks that ended an epoch because the job grows
    int unneeded = 0;  // workers that waited until the job completed
    int recalled = 0;  // plans that a rank gave back to a coordinator
    int registered_again = 0;  // epochs whose ranks were asked to
  };
  const Counts& counts() const { return counts_; }
  // The newest epoch in which a rank has applied a step.
  uint64_t newest_update() const { return newest_update_; }

  // --- For Trainer ---
  // Whether a rank sees the end of a collective late.
  bool IsSlow(int rank) {
    if (options_.is_regular) return rank == options_.slow_rank;
    return Toss(at_verdicts_ + at_last_steps_ > 0 ? 0.3 : 0.1);
  }
  absl::Time now() const { return events_.now(); }
  absl::Duration Draw(absl::Duration max);
  bool Toss(double probability);
  uint64_t Pick(uint64_t n);
  EventQueue& events() { return events_; }
  ControlNetwork& network() { return network_; }
  DataPlane& data_plane() { return data_plane_; }
  const JobSpec& spec() const { return spec_; }
  uint64_t steps() const { return options_.steps; }
  const SampleStream& samples() const { return samples_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // `then` runs with the plan, or with null.
  std::shared_ptr<const plan::Plan> FindPlan(const std::string& digest) const;
  uint64_t NextIncarnation() { return ++incarnations_; }
  void Violated(std::string what);
  template <typename MakeText>
  void Note(const MakeText& text) {
    if (options_.story) story_.push_back(TimeText() + text());
  }
  Counts& counts() { return counts_; }

  // --- Checks of what trainers do ---
  void Accepted(EpochId epoch, Revision revision, const std::string& digest);
  void Met(const DataPlane::Offers& offers);
  void Applied(const Trainer& trainer, const Update& update);
  void BeganWithState(const Trainer& trainer);
  const Model& checkpoint() const { return checkpoint_; }
  void Exited(Trainer* trainer);
  // The connections of a process to its peers broke.
  void NoteDataPlaneLost(const Trainer& trainer, protocol::EvidenceKind kind);

  // --- StreamServer ---
  bool Accepts() const override { return daemon_ != nullptr; }
  void Receive(uint64_t stream, protocol::ToCoordinator message) override;
  void Closed(uint64_t stream) override;

 private:
  std::string TimeText() const;
  void Count(const std::string& note);
  void StartDaemon();
  void StartTrainer(int worker);
  void Apply(const core::Event& event);
  void PlanFaults();
  void At(absl::Duration max, std::function<void()> fault);
  void PlanCuts(int worker);
  void Move(int worker);
  void Impersonate(int worker);
  void ReportDeath(const Trainer& trainer);
  void Partition(int worker);
  void BreakLink();
  Death DrawDeath();
  void StopForAWhile(int worker);
  bool MayStrike(int* left, double probability);
  // Any fault, within `wait`.
  void StrikeWithin(absl::Duration wait);
  bool AnyTrainedAll() const;
  SimClock DrawClock();
  Trainer* Alive(int worker);
  bool Lives(uint64_t process) const;

  const TrainingOptions options_;
  std::mt19937_64 random_;
  EventQueue events_;
  JobSpec spec_;
  SampleStream samples_;
  std::vector<Parameter> parameters_;
  ControlNetwork network_;
  DataPlane data_plane_;
  SimDaemon::Surroundings surroundings_;
  SimDisk disk_;
  std::unique_ptr<SimDaemon> daemon_;
  uint64_t daemons_ = 0;
  std::vector<std::shared_ptr<Trainer>> trainers_;
  std::vector<std::shared_ptr<Trainer>> former_;  // they may be running still
  class Impostor;
  std::vector<std::shared_ptr<Impostor>> impostors_;
  uint64_t processes_ = 0;
  uint64_t incarnations_ = 0;
  uint64_t events_run_ = 0;
  absl::Time last_exit_;  // of a worker's process
  uint64_t requests_ = 0;
  bool faults_ended_ = false;
  int at_verdicts_ = options_.faults.at_verdicts;  // that are left
  int at_last_steps_ = options_.faults.at_last_steps;
  int in_recoveries_ = options_.faults.in_recoveries;
  std::map<std::pair<uint64_t, uint64_t>, std::string> digests_;
  std::map<uint64_t, Model> began_;  // by epoch: what its ranks began with
  uint64_t newest_update_ = 0;
  Model checkpoint_;
  Counts counts_;
  std::vector<std::string> violations_;
  std::vector<std::string> story_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_TRAINING_WORLD_H_

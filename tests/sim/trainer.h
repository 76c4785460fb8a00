// One simulated process of a worker: the real session machine, the real step
// agreement, the plan that the job compiled, and a program that trains,
// recovers and leaves as client/include/lockstep/recovery.h says.
//
//   join ─▶ register ─▶ fetch, connect ─▶ resume ─▶ steps ─▶ leave
//     ▲                                               │ the epoch ends
//     └── with the state, or as a newcomer ◀─ recover ┘
//
// Each session of the process is one incarnation; what was scheduled in an
// earlier one is void. The data plane, the state and the gradients are
// simulated (data_plane.h, training_history.h).

#ifndef LOCKSTEP_TESTS_SIM_TRAINER_H_
#define LOCKSTEP_TESTS_SIM_TRAINER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/gradient/step_agreement.h"
#include "client/session/machine.h"
#include "client/session/state_registry.h"
#include "plan/ir.h"
#include "tests/sim/control_network.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/training_history.h"

namespace lockstep::sim {

class TrainingWorld;

class Trainer final : public std::enable_shared_from_this<Trainer> {
 public:
  struct Options {
    std::string name;
    uint64_t process = 0;  // its number in the world: 1, 2, 3, ...
    SimClock clock;
    bool fails_once = false;  // in some step, by itself
  };

  Trainer(TrainingWorld* world, const Options& options);

  void Start();
  // The process is gone: nothing of it runs any more.
  void Die();
  void StopUntil(absl::Time thaw) {
    stopped_until_ = std::max(stopped_until_, thaw);
  }

  // A connection of the data plane to that process failed.
  void NotePeerFailure(const std::string& name, uint64_t process,
                       protocol::EvidenceKind kind);

  // --- Questions ---
  const std::string& name() const { return options_.name; }
  // The name of the process in the network: "worker-1#4".
  const std::string& host() const { return host_; }
  uint64_t process() const { return options_.process; }
  const session::View& view() const { return machine_->view(); }
  const Model& model() const { return model_; }
  // The step of the job that follows the model.
  uint64_t next_job_step() const { return next_job_step_; }
  uint64_t incarnation() const { return incarnation_; }
  // The program has done its last step and has left; or ended with an error.
  bool done() const { return done_; }
  bool failed() const { return failed_; }
  bool trained_all() const { return trained_all_; }
  bool alive() const { return alive_; }
  protocol::Position position() const;
  // The newest open stream; 0: none.
  uint64_t stream() const {
    return streams_.empty() ? 0 : streams_.rbegin()->second;
  }

 private:
  // What a session has once its plan is connected.
  struct Epoch {
    std::shared_ptr<const plan::Plan> plan;
    std::string digest;
    std::shared_ptr<const plan::Plan> next;  // a later revision, staged
    std::string next_digest;
    std::vector<std::string> groups;  // by communicator; empty: not a member
    std::vector<uint64_t> sequence;   // operations posted, by communicator
    std::unique_ptr<gradient::StepAgreement> agreement;
    bool resumed = false;
    int pending = 0;  // operations that have not completed here
    // --- The step in progress ---
    std::vector<Contributions> buckets;  // by bucket of the plan
    std::set<int> submitted;             // parameters of the plan
    std::vector<plan::TransferRef> launches;
    size_t next_launch = 0;
    int in_flight = 0;
    gradient::StepId step_id;
    gradient::UpdateTerms terms;
  };

  // The session's end of its streams.
  class StreamEnd;

  enum Stage {
    kBorn,
    kRegistered,
    kFetching,
    kFetched,
    kConnecting,
    kTraining,
    kQuiescing,
    kQuiesced,
    kLeaving
  };

  void StartSession(std::optional<protocol::HeldState> held);
  void Apply(const session::Event& event);
  void Do(const session::Effect& effect);
  // Runs `what` in the process, now or once it is awake; never if it died, or
  // another session has begun.
  void RunAwake(uint64_t session, std::function<void()> what);
  void AwakeAt(absl::Time thaw);
  void Awake();
  // `what` runs later, in this session only.
  void After(absl::Duration delay, std::function<void()> what);
  DataPlane::Schedule Scheduler();
  void Exit(bool success, const std::string& why);
  void ReportPeers();

  // --- The program up to its first step (trainer.cc) ---
  void Look();
  void Once(Stage stage, void (Trainer::*act)());
  void Register();
  void FetchPlan();
  void Connect();
  void Resume();
  void TakeState(const Offer& holder);

  // --- Revisions ---
  void FetchRevision();
  void SwitchIfAllHold(const Verdict& verdict);

  // --- Steps (trainer_steps.cc) ---
  void BeginStep();
  void Submit(int parameter);
  void LaunchNext();
  void EnterVerdict(const plan::Lane& lane);
  void PostTransfer(const plan::Transfer& transfer, Offer offer,
                    DataPlane::Done done);
  void Judge(const DataPlane::Offers& offers);
  void ApplyUpdate(const Verdict& verdict, const std::string& bytes);
  void LeaveJob();
  void ReportGrowth();
  void ReportPosition();
  void FailLocally(const std::string& why);

  // --- Recovery (trainer_steps.cc) ---
  void Quiesce();
  void ExitWithoutDecision();
  void LeavePartialSums();
  void Recover();
  bool RollForward(const protocol::RecoveryDecision& decision);

  uint64_t program_step() const { return model_.size(); }
  // The mesh of the epoch.
  const Mesh& mesh() const { return mesh_; }
  bool HoldsState(uint64_t step) const;

  TrainingWorld& world_;
  const Options options_;
  const std::string host_;
  std::unique_ptr<session::Machine> machine_;
  std::shared_ptr<StreamEnd> end_;
  std::map<uint64_t, uint64_t> streams_;  // by the machine's number
  uint64_t session_ = 0;                  // the number of the session
  uint64_t incarnation_ = 0;              // its name for the coordinator
  Stage stage_ = kBorn;
  Mesh mesh_;  // once the epoch is formed
  absl::Time wake_ = absl::InfiniteFuture();
  absl::Time stopped_until_ = absl::InfinitePast();
  // What happens when it is awake again, with its session.
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;
  std::optional<Epoch> epoch_;
  std::unique_ptr<session::StateRegistry> state_;
  bool fetching_revision_ = false;
  std::vector<protocol::Evidence> failed_peers_;  // of this epoch
  protocol::Position reported_;
  std::optional<protocol::HeldState> held_;  // for the next session
  bool recovers_ = false;  // the session is left to join again
  bool leaves_ = false;    // after the last step

  // --- The program's memory ---
  Model model_;
  uint64_t next_job_step_ = 0;
  int64_t scoped_ = 0;
  bool failed_once_ = false;
  bool trained_all_ = false;
  bool alive_ = true;
  bool done_ = false;
  bool failed_ = false;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_TRAINER_H_

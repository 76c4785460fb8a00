// What fails in the world: processes, machines, networks, links.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/training_world.h"

namespace lockstep::sim {

Trainer* TrainingWorld::Alive(int worker) {
  Trainer* const trainer = trainers_[worker].get();
  return trainer != nullptr && trainer->alive() ? trainer : nullptr;
}

bool TrainingWorld::Lives(uint64_t process) const {
  const auto is_it = [&](const std::shared_ptr<Trainer>& trainer) {
    return trainer != nullptr && trainer->process() == process &&
           trainer->alive();
  };
  return std::any_of(trainers_.begin(), trainers_.end(), is_it) ||
         std::any_of(former_.begin(), former_.end(), is_it);
}

// The number of no process of the world.
constexpr int64_t kNoProcess = 1'000'000;

// A process that knows all about a worker but its secret.
class TrainingWorld::Impostor final : public StreamUser {
 public:
  Impostor(TrainingWorld* world, const Trainer& of)
      : world_(*world),
        host_(absl::StrCat("impostor of ", of.name())),
        hello_{.worker = {of.name()},
               .generation = of.view().generation,
               .incarnation = of.incarnation(),
               .spec = world->spec(),
               .process = {.host = "elsewhere",
                           .pid = kNoProcess,
                           .boot_id = "boot",
                           .start_time = 1},
               .resume = protocol::ResumeState{.epoch = of.view().epoch,
                                               .position = of.position(),
                                               .rank = of.view().rank},
               .secret = "guessed"} {}

  void Begin(std::shared_ptr<Impostor> self) {
    stream_ = world_.network().Open(std::move(self), 1);
  }
  void RunAwake(std::function<void()> what) override { what(); }
  void Receive(const session::Event& event) override {
    if (!std::holds_alternative<session::StreamOpened>(event)) return;
    const EpochId epoch = hello_.resume->epoch;
    world_.network().ToCoordinator(stream_,
                                   {{world_.spec().name}, epoch, {}, hello_});
    // It would end the epoch.
    world_.network().ToCoordinator(
        stream_,
        {{world_.spec().name}, epoch, {}, protocol::Leave{.clean = false}});
  }
  const std::string& host() const override { return host_; }

 private:
  TrainingWorld& world_;
  const std::string host_;
  const protocol::Hello hello_;
  uint64_t stream_ = 0;
};

void TrainingWorld::Impersonate(int worker) {
  const Trainer* const trainer = Alive(worker);
  if (trainer == nullptr || trainer->view().generation.value == 0) return;
  Note([&] { return trainer->name() + " is IMPERSONATED"; });
  impostors_.push_back(std::make_shared<Impostor>(this, *trainer));
  impostors_.back()->Begin(impostors_.back());
}

// As an orchestrator does that has lost sight of a machine.
void TrainingWorld::Move(int worker) {
  Trainer* const trainer = Alive(worker);
  if (trainer == nullptr) return;
  Note([&] { return trainer->name() + " is STOPPED and replaced"; });
  trainer->StopUntil(now() + absl::Seconds(1) + Draw(absl::Seconds(4)));
  events_.After(Draw(absl::Seconds(3)), [this, worker, trainer] {
    if (trainers_[worker].get() == trainer) StartTrainer(worker);
  });
}

void TrainingWorld::CrashWorker(int worker, const Death& death) {
  Trainer* const trainer = Alive(worker);
  if (trainer == nullptr) return;
  Note([&] {
    return absl::StrCat(trainer->name(), death.machine ? "'s machine" : "",
                        " CRASHES");
  });
  trainer->Die();
  network_.WorkerDied(trainer->host(), death.machine);
  NoteDataPlaneLost(*trainer,
                    death.machine ? protocol::EvidenceKind::kPeerSilent
                    : death.seen  ? protocol::EvidenceKind::kExited
                                  : protocol::EvidenceKind::kPeerReset);
  if (death.reported) ReportDeath(*trainer);
  events_.After(absl::Milliseconds(50) + Draw(options_.faults.restart_max),
                [this, worker, trainer] {
                  if (trainers_[worker].get() == trainer) StartTrainer(worker);
                });
}

// The launcher does, and again if it hears no answer.
void TrainingWorld::ReportDeath(const Trainer& trainer) {
  const auto report = [this, name = trainer.name(),
                       process = trainer.process()] {
    Apply(
        core::ReportEvidence{{++requests_},
                             {spec_.name},
                             "",
                             {.subject = {name},
                              .detail = "killed by signal 9",
                              .process = {.host = "host-" + name,
                                          .pid = static_cast<int64_t>(process),
                                          .boot_id = "boot",
                                          .start_time = process}}});
  };
  const bool is_late = !options_.is_regular && Toss(0.2);
  events_.After(Draw(absl::Milliseconds(is_late ? 2000 : 30)), report);
  if (Toss(0.3)) events_.After(Draw(absl::Seconds(2)), report);
}

void TrainingWorld::At(absl::Duration max, std::function<void()> fault) {
  events_.After(Draw(max), [this, fault = std::move(fault)] {
    if (!faults_ended_) fault();
  });
}

void TrainingWorld::PlanFaults() {
  const TrainingFaults& faults = options_.faults;
  const int world = static_cast<int>(trainers_.size());
  for (int i = 0; i < faults.worker_crashes; ++i) {
    At(faults.until, [this, world] {
      CrashWorker(static_cast<int>(Pick(world)), DrawDeath());
    });
  }
  for (int i = 0; i < faults.worker_stops; ++i) {
    At(faults.until,
       [this, world] { StopForAWhile(static_cast<int>(Pick(world))); });
  }
  for (int i = 0; i < faults.worker_moves; ++i) {
    At(faults.until, [this, world] { Move(static_cast<int>(Pick(world))); });
  }
  for (int i = 0; i < faults.impostors; ++i) {
    At(faults.until,
       [this, world] { Impersonate(static_cast<int>(Pick(world))); });
  }
  for (int i = 0; i < faults.coordinator_crashes; ++i) {
    At(faults.until,
       [this] { CrashCoordinator(Toss(options_.faults.machine_crash)); });
  }
  for (int i = 0; i < faults.coordinator_stops; ++i) {
    At(faults.until, [this] {
      if (daemon_ == nullptr) return;
      Note([] { return "    the coordinator is STOPPED"; });
      daemon_->StopUntil(now() + Draw(absl::Seconds(3)));
    });
  }
  for (int i = 0; i < faults.partitions; ++i) {
    At(faults.until,
       [this, world] { Partition(static_cast<int>(Pick(world))); });
  }
  for (int i = 0; i < faults.broken_links; ++i) {
    At(faults.until, [this] { BreakLink(); });
  }
  if (faults.mean_between_cuts > absl::ZeroDuration()) {
    for (int i = 0; i < world; ++i) PlanCuts(i);
  }
}

Death TrainingWorld::DrawDeath() {
  const bool machine = Toss(options_.faults.silent_crash);
  return {.machine = machine,
          .seen = !machine && Toss(0.5),
          .reported = !machine && Toss(0.5)};
}

void TrainingWorld::StopForAWhile(int worker) {
  Trainer* const trainer = Alive(worker);
  if (trainer == nullptr) return;
  Note([&] { return trainer->name() + " is STOPPED"; });
  trainer->StopUntil(now() + Draw(absl::Seconds(3)));
}

bool TrainingWorld::MayStrike(int* left, double probability) {
  const bool is_over = now() - absl::UnixEpoch() > options_.faults.until;
  if (*left == 0 || is_over || !Toss(probability)) return false;
  --*left;
  return true;
}

void TrainingWorld::StrikeWithin(absl::Duration wait) {
  At(wait, [this] {
    const auto worker = static_cast<int>(Pick(trainers_.size()));
    switch (Pick(10)) {
      case 0:
      case 1:
      case 2: return CrashWorker(worker, DrawDeath());
      case 3:
      case 4:
      case 5: return BreakLink();
      case 6: return CrashCoordinator(Toss(options_.faults.machine_crash));
      case 7: return Partition(worker);
      case 8: return StopForAWhile(worker);
      default: return Impersonate(worker);
    }
  });
}

void TrainingWorld::PlanCuts(int worker) {
  const absl::Duration wait =
      absl::Milliseconds(700) +
      options_.faults.mean_between_cuts *
          std::exponential_distribution<double>(1)(random_);
  events_.After(wait, [this, worker] {
    if (now() - absl::UnixEpoch() > options_.faults.until) return;
    Trainer* const trainer = Alive(worker);
    if (trainer != nullptr && trainer->stream() != 0) {
      if (Toss(options_.faults.late)) {
        network_.BreakAtWorker(trainer->stream(),
                               now() + Draw(absl::Milliseconds(800)));
      } else {
        network_.Cut(trainer->stream());
      }
    }
    PlanCuts(worker);
  });
}

void TrainingWorld::Partition(int worker) {
  Trainer* const trainer = Alive(worker);
  if (trainer == nullptr) return;
  const absl::Time until = now() + Draw(absl::Seconds(4));
  const uint64_t kind = Pick(3);
  Note([&] {
    return absl::StrCat(trainer->name(), " is CUT OFF: ",
                        kind == 0   ? "both ways"
                        : kind == 1 ? "to the coordinator"
                                    : "from the coordinator");
  });
  network_.Block(trainer->host(), kind == 2 ? absl::InfinitePast() : until,
                 kind == 1 ? absl::InfinitePast() : until);
}

void TrainingWorld::BreakLink() {
  const int world = static_cast<int>(trainers_.size());
  if (world < 2) return;
  const int one = static_cast<int>(Pick(world));
  const int other = static_cast<int>((one + 1 + Pick(world - 1)) % world);
  Trainer* const a = Alive(one);
  Trainer* const b = Alive(other);
  if (a == nullptr || b == nullptr) return;
  Note([&] {
    return absl::StrCat("the LINK of ", a->name(), " and ", b->name(),
                        " breaks");
  });
  data_plane_.Break(a->process(), b->process());
  const auto kind = Toss(0.5) ? protocol::EvidenceKind::kPeerReset
                              : protocol::EvidenceKind::kPeerSilent;
  NoteDataPlaneLost(*a, kind);
  if (Toss(0.5)) NoteDataPlaneLost(*b, kind);
}

}  // namespace lockstep::sim

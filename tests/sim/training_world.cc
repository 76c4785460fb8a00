#include "tests/sim/training_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/client/session/describe.h"

namespace lockstep::sim {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(3);

JobSpec SpecFor(const TrainingOptions& options) {
  JobSpec spec{.name = "job", .mesh = options.mesh};
  spec.buckets = {.first_bytes_max = 64, .bytes_max = 128};
  spec.timeouts.join = absl::Seconds(20);
  spec.timeouts.lease = absl::Seconds(2);
  spec.timeouts.connect = absl::Seconds(6);
  spec.timeouts.link = absl::Seconds(3);
  spec.limits.max_restarts = 1000;
  spec.limits.spares = options.spares;
  if (options.is_elastic) {
    spec.elastic.axis = options.mesh.axes[0].name;
    spec.elastic.wait = absl::Milliseconds(options.seed % 2 * 200);
  }
  spec.seed = options.seed;
  return spec;
}

}  // namespace

TrainingWorld::TrainingWorld(const TrainingOptions& options)
    : options_(options),
      random_(options.seed),
      spec_(SpecFor(options)),
      samples_{.seed = options.seed,
               .dataset_size = 1 << 20,
               .global_batch = 2 * options.mesh.axes[0].size},
      network_(
          &events_, &random_, this,
          options.is_regular ? absl::ZeroDuration() : absl::Milliseconds(20)),
      surroundings_{
          .now = [this] { return now(); },
          .after =
              [this](absl::Duration delay, std::function<void()> what) {
                events_.After(delay, std::move(what));
              },
          .draw = [this](absl::Duration max) { return Draw(max); },
          .send =
              [this](uint64_t stream, protocol::ToWorker message) {
                Note([&] {
                  return absl::StrCat("    to ", stream, ": ",
                                      session::Describe(message.body));
                });
                network_.ToWorker(stream, std::move(message));
              },
          .close =
              [this](uint64_t stream, absl::Status status) {
                network_.CloseAtCoordinator(stream, std::move(status));
              },
          .note =
              [this](std::string text) {
                Count(text);
                Note([&] { return absl::StrCat("    coordinator: ", text); });
              },
          .violated = [this](std::string what) { Violated(std::move(what)); },
          .lives = [this](uint64_t process) { return Lives(process); }} {
  const bool has_model = options.mesh.axes.size() > 1;
  for (const char* name : {"a", "b", "c"}) {
    Parameter parameter{.name = name, .shape = {16}, .op = ReduceOp::kSum};
    if (has_model) parameter.axes = {"data"};
    parameters_.push_back(parameter);
  }
  StartDaemon();
  const int workers = spec_.mesh.WorldSize() + options.spares;
  trainers_.resize(workers);
  for (int i = 0; i < workers; ++i) {
    events_.After(Draw(absl::Milliseconds(300)), [this, i] {
      if (trainers_[i] == nullptr) StartTrainer(i);
    });
  }
  PlanFaults();
}

TrainingWorld::~TrainingWorld() = default;

// --- Running ----------------------------------------------------------------

bool TrainingWorld::RunOne() {
  if (!violations_.empty() || AllDone()) return false;
  if (!events_.RunOne(absl::UnixEpoch() + kPatience)) return false;
  ++events_run_;
  return true;
}

void TrainingWorld::Run() {
  while (RunOne()) {
  }
  CheckEnd();
}

bool TrainingWorld::AllDone() const {
  const core::DurableJob* const ended = job();
  const bool is_over = ended != nullptr && ended->ended.has_value();
  return std::all_of(
             trainers_.begin(), trainers_.end(),
             [&](const std::shared_ptr<Trainer>& trainer) {
               return trainer != nullptr &&
                      (trainer->done() || (is_over && !trainer->alive()));
             }) &&
         (is_over || now() > last_exit_ + absl::Seconds(60));
}

const core::DurableJob* TrainingWorld::job() const {
  if (daemon_ == nullptr) return nullptr;
  const auto found = daemon_->durable().jobs.find({spec_.name});
  return found == daemon_->durable().jobs.end() ? nullptr : &found->second;
}

bool TrainingWorld::completed() const {
  const core::DurableJob* const ended = job();
  return ended != nullptr && ended->ended &&
         ended->ended->outcome == record::JobOutcome::kCompleted;
}

bool TrainingWorld::AnyTrainedAll() const {
  const auto has = [](const std::shared_ptr<Trainer>& trainer) {
    return trainer != nullptr && trainer->trained_all();
  };
  return std::any_of(trainers_.begin(), trainers_.end(), has) ||
         std::any_of(former_.begin(), former_.end(), has);
}

void TrainingWorld::CheckEnd() {
  if (!violations_.empty()) return;
  if (!AllDone()) {
    std::string where;
    for (const auto& trainer : trainers_) {
      if (trainer == nullptr || trainer->done()) continue;
      absl::StrAppend(
          &where, "; ", trainer->name(), trainer->alive() ? "" : " (dead)",
          trainer->alive()
              ? absl::StrCat(" in session phase ",
                             static_cast<int>(trainer->view().phase),
                             " of epoch ", trainer->view().epoch.value,
                             " in step ", trainer->position().step)
              : "");
    }
    return Violated(absl::StrCat("training does not end", where));
  }
  if (job() == nullptr || !job()->ended) {
    return Violated("all workers have left, and the job is not over");
  }
  if (!completed()) {
    ++counts_.failed_jobs;
    // A step that fails three times ends the job: that needs three epochs. So
    // does a worker that was presumed dead when it did the last step, and left:
    // the others lack one.
    if (job()->epoch.value < 3 && !AnyTrainedAll())
      return Violated("the job failed after too few losses");
    // Nor is the last step of one heard that is cut off.
    if (job()->cause.kind == protocol::CauseKind::kLeaseExpired) return;
    if (std::all_of(trainers_.begin(), trainers_.end(),
                    [](const auto& trainer) {
                      return trainer->done() && trainer->trained_all();
                    })) {
      Violated("all workers have left after the last step, and the job failed");
    }
    return;
  }
  if (!AnyTrainedAll()) {
    return Violated("the job completed, and nobody has done the last step");
  }
  const Model* first = nullptr;
  std::vector<std::shared_ptr<Trainer>> all = trainers_;
  all.insert(all.end(), former_.begin(), former_.end());
  for (const auto& trainer : all) {
    if (!trainer->done()) continue;
    if (!trainer->trained_all()) {
      ++counts_.unneeded;
      continue;
    }
    // One that was presumed dead in its last step has passed it, and the others
    // have done the same step again, in another epoch.
    if (trainer->view().epoch < job()->epoch) continue;
    const Model& model = trainer->model();
    if (first == nullptr) first = &model;
    if (model.size() != options_.steps) {
      return Violated(absl::StrCat(trainer->name(), " has applied ",
                                   model.size(), " steps of ", options_.steps));
    }
    if (model != *first) {
      return Violated(absl::StrCat(trainer->name(),
                                   " ends with other updates than others"));
    }
  }
}

// --- Random draws, notes ----------------------------------------------------

absl::Duration TrainingWorld::Draw(absl::Duration max) {
  if (options_.is_regular) return max / 2;
  return max * std::uniform_real_distribution<double>(0, 1)(random_);
}

bool TrainingWorld::Toss(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

uint64_t TrainingWorld::Pick(uint64_t n) { return random_() % n; }

std::string TrainingWorld::TimeText() const {
  return absl::StrCat(absl::FormatDuration(now() - absl::UnixEpoch()), " ");
}

std::string TrainingWorld::Story() const { return absl::StrJoin(story_, "\n"); }

void TrainingWorld::Violated(std::string what) {
  Note([&] { return absl::StrCat("VIOLATED: ", what); });
  violations_.push_back(absl::StrCat(TimeText(), what));
}

// The coordinator's events are the only sign of these.
void TrainingWorld::Count(const std::string& note) {
  if (absl::StrContains(note, "has sent the plan again")) ++counts_.recalled;
  if (absl::StrContains(note, "all members register again")) {
    ++counts_.registered_again;
  }
  if (absl::StrContains(note, " ends: ") && MayStrike(&in_recoveries_, 0.5)) {
    StrikeWithin(absl::Milliseconds(1500));
  }
}

// --- Processes --------------------------------------------------------------

SimClock TrainingWorld::DrawClock() {
  if (!options_.faults.skewed_clocks) return {};
  return {.offset = Draw(absl::Hours(1)),
          .rate = 0.95 + 0.1 * absl::FDivDuration(Draw(absl::Seconds(1)),
                                                  absl::Seconds(1))};
}

void TrainingWorld::StartDaemon() {
  daemon_ = std::make_unique<SimDaemon>(
      &surroundings_, &disk_,
      SimDaemon::Options{
          .number = ++daemons_,
          .clock = DrawClock(),
          .sync_max = options_.faults.sync_max,
          .records_per_snapshot = options_.seed % 3 == 0 ? 8 : 0});
}

void TrainingWorld::StartTrainer(int worker) {
  if (trainers_[worker] != nullptr) former_.push_back(trainers_[worker]);
  trainers_[worker] = std::make_shared<Trainer>(
      this,
      Trainer::Options{
          .name = absl::StrCat("worker-", worker),
          .process = ++processes_,
          .clock = DrawClock(),
          .fails_once = processes_ <=
                        static_cast<uint64_t>(options_.faults.local_failures)});
  trainers_[worker]->Start();
}

void TrainingWorld::Exited(Trainer* trainer) {
  last_exit_ = now();
  network_.WorkerDied(trainer->host(), /*machine_is_gone=*/false);
  NoteDataPlaneLost(*trainer, protocol::EvidenceKind::kPeerReset);
  if (trainer->done()) return;
  const core::DurableJob* const ended = job();
  if (ended != nullptr && ended->ended) return;
  for (size_t i = 0; i < trainers_.size(); ++i) {
    if (trainers_[i].get() != trainer) continue;
    events_.After(absl::Milliseconds(100) + Draw(absl::Milliseconds(400)),
                  [this, i, trainer] {
                    if (trainers_[i].get() == trainer)
                      StartTrainer(static_cast<int>(i));
                  });
  }
}

void TrainingWorld::NoteDataPlaneLost(const Trainer& trainer,
                                      protocol::EvidenceKind kind) {
  const absl::Duration delay = kind == protocol::EvidenceKind::kPeerSilent
                                   ? spec_.timeouts.LinkSilence()
                                   : absl::ZeroDuration();
  for (const auto& other : trainers_) {
    if (other == nullptr || other.get() == &trainer || !other->alive())
      continue;
    events_.After(delay + Draw(absl::Milliseconds(50)),
                  [weak = std::weak_ptr<Trainer>(other), name = trainer.name(),
                   process = trainer.process(), kind] {
                    const auto self = weak.lock();
                    if (self == nullptr || !self->alive()) return;
                    self->NotePeerFailure(name, process, kind);
                  });
  }
}

std::shared_ptr<const plan::Plan> TrainingWorld::FindPlan(
    const std::string& digest) const {
  return daemon_ == nullptr ? nullptr : daemon_->FindPlan({spec_.name}, digest);
}

// --- The coordinator --------------------------------------------------------

void TrainingWorld::Receive(uint64_t stream, protocol::ToCoordinator message) {
  Apply(core::MessageReceived{{stream}, std::move(message)});
}

void TrainingWorld::Closed(uint64_t stream) {
  Apply(core::SessionClosed{{stream}, "the stream broke"});
}

void TrainingWorld::Apply(const core::Event& event) {
  if (daemon_ != nullptr) daemon_->Apply(event);
}

void TrainingWorld::CrashCoordinator(bool machine) {
  if (daemon_ == nullptr) return;
  Note([&] {
    return absl::StrCat("    the coordinator's ",
                        machine ? "machine" : "process", " CRASHES");
  });
  daemon_.reset();
  if (machine) disk_.CrashMachine(&random_);
  network_.CoordinatorDied();
  events_.After(absl::Milliseconds(20) + Draw(absl::Milliseconds(1500)),
                [this] {
                  Note([] { return "    the coordinator is back"; });
                  StartDaemon();
                });
}

// --- Checks -----------------------------------------------------------------

void TrainingWorld::Accepted(EpochId epoch, Revision revision,
                             const std::string& digest) {
  const auto [first, is_new] =
      digests_.try_emplace({epoch.value, revision.value}, digest);
  if (!is_new && first->second != digest) {
    Violated(absl::StrCat("revision ", revision.value, " of epoch ",
                          epoch.value, " is two plans"));
  }
}

void TrainingWorld::Met(const DataPlane::Offers& offers) {
  const Offer& first = offers.front();
  for (const Offer& offer : offers) {
    const bool same = offer.step_id.epoch == first.step_id.epoch &&
                      offer.step_id.revision == first.step_id.revision &&
                      offer.step_id.step == first.step_id.step &&
                      offer.plan_digest == first.plan_digest &&
                      offer.operation == first.operation;
    if (same) continue;
    return Violated(absl::StrCat(
        "processes ", first.process, " and ", offer.process,
        " meet in different operations: ", first.operation, " of step ",
        first.step_id.step, " in epoch ", first.step_id.epoch.value, " and ",
        offer.operation, " of step ", offer.step_id.step, " in epoch ",
        offer.step_id.epoch.value));
  }
}

void TrainingWorld::Applied(const Trainer& trainer, const Update& update) {
  Note([&] {
    return absl::StrCat(trainer.name(), " applies step ", update.program_step,
                        " (step ", update.job_step, " of the job) in epoch ",
                        update.epoch);
  });
  newest_update_ = std::max(newest_update_, update.epoch);
  if (MayStrike(&at_verdicts_, 0.1)) StrikeWithin(absl::Milliseconds(5));
  const bool is_last = update.program_step + 1 == options_.steps;
  if (is_last && at_last_steps_ > 0 && Toss(0.3)) {
    --at_last_steps_;
    StrikeWithin(absl::Milliseconds(20));
  }
  Contributions right;
  for (const int64_t sample :
       SamplesOfStep(samples_, static_cast<int64_t>(update.program_step))) {
    right.push_back({.sample = sample,
                     .program_step = update.program_step,
                     .epoch = update.epoch,
                     .job_step = update.job_step,
                     .scoped = static_cast<int64_t>(update.program_step)});
  }
  std::sort(right.begin(), right.end());
  for (const Contributions& sum : update.gradients) {
    if (sum == right) continue;
    return Violated(absl::StrCat(trainer.name(), " applies a gradient to step ",
                                 update.program_step, " that is of ",
                                 sum.size(), " samples, and not of the step's ",
                                 right.size(), ", each once"));
  }
  if (update.gradients.size() != parameters_.size()) {
    return Violated(absl::StrCat(trainer.name(), " updates ",
                                 update.gradients.size(), " parameters"));
  }
  if (update.samples != static_cast<double>(samples_.global_batch)) {
    return Violated(
        absl::StrCat("a verdict counts ", update.samples, " samples"));
  }
  // All ranks have passed the step before the one that a rank passes.
  const Model& model = trainer.model();
  const core::DurableJob* const now = job();
  const bool is_current =
      now != nullptr && now->epoch_lives && now->epoch.value == update.epoch;
  if (is_current && model.size() % 5 == 1) {
    checkpoint_ = Model(model.begin(), model.end() - 1);
  }
}

void TrainingWorld::BeganWithState(const Trainer& trainer) {
  const uint64_t epoch = trainer.view().epoch.value;
  if (trainer.next_job_step() != trainer.view().first_step) {
    return Violated(absl::StrCat(trainer.name(), " begins epoch ", epoch,
                                 " with step ", trainer.view().first_step,
                                 ", and its state is that before step ",
                                 trainer.next_job_step()));
  }
  const auto [first, is_new] = began_.try_emplace(epoch, trainer.model());
  if (is_new) {
    ++counts_.epochs;
    if (static_cast<int>(trainer.view().members.size()) <
        spec_.mesh.WorldSize()) {
      ++counts_.smaller;
    }
    return;
  }
  if (first->second == trainer.model()) return;
  Violated(absl::StrCat(trainer.name(), " begins epoch ", epoch, " with ",
                        trainer.model().size(),
                        " updates that differ from the ", first->second.size(),
                        " of another rank"));
}

}  // namespace lockstep::sim

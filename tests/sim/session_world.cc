#include "tests/sim/session_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "tests/client/session/describe.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::sim {
namespace {

constexpr absl::Duration kLatencyMax = absl::Milliseconds(40);
constexpr size_t kStoryLines = 400;

}  // namespace

SessionWorld::SessionWorld(uint64_t seed, int workers, const Faults& faults,
                           int max_restarts)
    : random_(seed), spec_{.name = "job", .mesh = {{{"data", workers}}}} {
  spec_.timeouts.join = absl::Seconds(20);
  spec_.timeouts.lease = absl::Seconds(2);
  spec_.limits.max_restarts = max_restarts;
  for (int i = 0; i < workers; ++i) {
    workers_.emplace_back(this, absl::StrCat("worker-", i));
  }
  computes_long_ = Toss(0.3);
  StartCoordinator();
  PlanFaults(faults);
}

SessionWorld::~SessionWorld() = default;

void SessionWorld::Run() {
  const absl::Time end = events_.now() + absl::Minutes(3);
  const auto all_done = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const SimWorker& worker) { return worker.done(); });
  };
  while (!all_done() && events_.RunOne(end)) {
  }
}

std::string SessionWorld::Story() const { return absl::StrJoin(story_, "\n"); }

void SessionWorld::Note(std::string line) {
  story_.push_back(absl::StrCat(
      absl::FormatDuration(events_.now() - absl::UnixEpoch()), " ", line));
  if (story_.size() > kStoryLines) story_.pop_front();
}

// --- Random draws -----------------------------------------------------------

absl::Duration SessionWorld::Draw(absl::Duration max) {
  return max * std::uniform_real_distribution<double>(0, 1)(random_);
}

bool SessionWorld::Toss(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

SimWorker& SessionWorld::SomeWorker() {
  return workers_[random_() % workers_.size()];
}

absl::Duration SessionWorld::ComputeTime() {
  const bool is_long = computes_long_ && Toss(0.03);
  return Draw(is_long ? 4 * spec_.timeouts.lease : absl::Milliseconds(60));
}

// --- Network ----------------------------------------------------------------

void SessionWorld::Open(SimWorker* worker, uint64_t number) {
  const uint64_t id = ++last_stream_;
  streams_[id] = {
      .worker = worker, .incarnation = worker->incarnation_, .number = number};
  worker->streams_[number] = id;
  events_.After(Draw(kLatencyMax), [this, id] {
    Stream& stream = streams_.at(id);
    if (!stream.worker_end) return;
    if (coordinator_ == nullptr) {
      return EndAtWorker(id, absl::UnavailableError("connection refused"));
    }
    stream.coordinator_end = true;
    if (stream.incarnation == stream.worker->incarnation_) {
      stream.worker->Apply(session::StreamOpened{stream.number});
    }
  });
}

void SessionWorld::ToCoordinator(uint64_t id, protocol::ToCoordinator message) {
  Stream& stream = streams_.at(id);
  stream.to_coordinator =
      std::max(stream.to_coordinator, now() + Draw(kLatencyMax));
  events_.At(stream.to_coordinator,
             [this, id, message = std::move(message)]() mutable {
               const Stream& stream = streams_.at(id);
               if (stream.cut || !stream.coordinator_end) return;
               Apply(core::MessageReceived{{id}, std::move(message)});
             });
}

void SessionWorld::ToWorker(uint64_t id, protocol::ToWorker message) {
  Stream& stream = streams_.at(id);
  stream.to_worker = std::max(stream.to_worker, now() + Draw(kLatencyMax));
  events_.At(stream.to_worker, [this, id,
                                message = std::move(message)]() mutable {
    const Stream& stream = streams_.at(id);
    if (stream.cut || !stream.worker_end ||
        stream.incarnation != stream.worker->incarnation_) {
      return;
    }
    Note(absl::StrCat("  ", stream.worker->name(), " hears on ", stream.number,
                      ": ", session::Describe(message.body)));
    stream.worker->Apply(
        session::StreamMessage{stream.number, std::move(message)});
  });
}

// The end arrives after all messages sent before it.
void SessionWorld::EndAtWorker(uint64_t id, absl::Status status) {
  Stream& stream = streams_.at(id);
  const absl::Time when = std::max(stream.to_worker, now()) + Draw(kLatencyMax);
  events_.At(when, [this, id, status] {
    Stream& stream = streams_.at(id);
    if (!std::exchange(stream.worker_end, false)) return;
    if (stream.incarnation != stream.worker->incarnation_) return;
    stream.worker->streams_.erase(stream.number);
    Note(absl::StrCat("  ", stream.worker->name(), " loses ", stream.number));
    stream.worker->Apply(session::StreamClosed{stream.number, status});
  });
}

void SessionWorld::EndAtCoordinator(uint64_t id) {
  Stream& stream = streams_.at(id);
  const absl::Time when =
      std::max(stream.to_coordinator, now()) + Draw(2 * kLatencyMax);
  events_.At(when, [this, id] {
    if (!std::exchange(streams_.at(id).coordinator_end, false)) return;
    Apply(core::SessionClosed{{id}, "the stream broke"});
  });
}

void SessionWorld::Cut(uint64_t id) {
  streams_.at(id).cut = true;
  EndAtWorker(id, absl::UnavailableError("cut"));
  EndAtCoordinator(id);
}

// --- The coordinator --------------------------------------------------------

void SessionWorld::Apply(const core::Event& event) {
  if (coordinator_ == nullptr) return;
  core::Effects effects = coordinator_->Step(now(), event);
  const bool crash = crash_in_next_step_ && MayCrashNow();
  if (crash || !journal_is_lost_) crash_in_next_step_ = false;
  if (crash && !effects.empty()) effects.resize(random_() % effects.size());
  for (const core::Effect& effect : effects) Do(effect);
  if (crash) return CrashCoordinator();
  WakeCoordinator();
}

void SessionWorld::WakeCoordinator() {
  const absl::Time wake = coordinator_->NextWake();
  if (wake >= coordinator_wake_ || wake == absl::InfiniteFuture()) return;
  coordinator_wake_ = wake;
  events_.At(wake, [this, wake] {
    if (coordinator_ == nullptr || coordinator_wake_ != wake) return;
    coordinator_wake_ = absl::InfiniteFuture();
    Apply(core::TimerExpired{});
  });
}

void SessionWorld::Do(const core::Effect& effect) {
  if (const auto* send = std::get_if<core::Send>(&effect)) {
    if (streams_.at(send->session.value).coordinator_end) {
      ToWorker(send->session.value, send->message);
    }
  } else if (const auto* close = std::get_if<core::CloseSession>(&effect)) {
    Stream& stream = streams_.at(close->session.value);
    if (!std::exchange(stream.coordinator_end, false)) return;
    EndAtWorker(close->session.value, close->status);
  } else if (const auto* persist = std::get_if<core::Persist>(&effect)) {
    records_.push_back(persist->record);
  } else if (const auto* compile = std::get_if<core::Compile>(&effect)) {
    events_.After(Draw(absl::Milliseconds(20)), [this, compile = *compile,
                                                 coordinator = coordinators_] {
      if (coordinator != coordinators_) return;  // it has crashed
      Apply(core::Compiled{compile.id, compile.job,
                           core::MakePlan(*compile.input, PlansAsText())});
    });
  } else if (const auto* note = std::get_if<core::Note>(&effect)) {
    Note(absl::StrCat("    coordinator: ", note->text));
  }
}

void SessionWorld::CrashCoordinator() {
  Note("    coordinator CRASHES");
  coordinator_.reset();
  coordinator_wake_ = absl::InfiniteFuture();
  for (auto& [id, stream] : streams_) {
    if (!std::exchange(stream.coordinator_end, false)) continue;
    stream.cut = true;
    EndAtWorker(id, absl::UnavailableError("the coordinator crashed"));
  }
  events_.After(Draw(outage_), [this] { StartCoordinator(); });
}

void SessionWorld::StartCoordinator() {
  const bool again = coordinators_++ > 0;
  coordinator_ = std::make_unique<core::Coordinator>(core::CoordinatorOptions{
      .secret_seed = absl::StrCat("seed ", coordinators_)});
  if (again && journal_is_lost_) {
    records_.clear();
    Note("    another coordinator knows nothing");
  }
  for (const record::Record& record : records_) {
    Check(coordinator_->Replay(record).ok(), "the journal does not replay");
  }
  if (!records_.empty()) Note("    coordinator is back");
  Apply(core::TimerExpired{});
  if (again && journal_is_lost_ && Toss(0.5)) {
    Apply(core::CreateJob{{1}, spec_, ""});
  }
}

bool SessionWorld::MayCrashNow() const {
  const bool all_run = std::all_of(
      workers_.begin(), workers_.end(), [](const SimWorker& worker) {
        return worker.alive() &&
               worker.view().phase == session::SessionPhase::kRunning;
      });
  return !AnyHasTrainedAll() && (all_run || !journal_is_lost_);
}

// --- Faults and steps -------------------------------------------------------

void SessionWorld::PlanFaults(const Faults& faults) {
  outage_ = faults.outage_max;
  journal_is_lost_ = faults.journal_is_lost;
  const size_t missing =
      faults.one_is_missing ? random_() % workers_.size() : workers_.size();
  if (faults.one_fails_locally) SomeWorker().fails_locally = true;
  if (faults.one_registers_otherwise) SomeWorker().registers_otherwise = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    SimWorker& worker = workers_[i];
    if (i == missing) {
      worker.done_ = true;
      continue;
    }
    events_.After(Draw(absl::Milliseconds(500)),
                  [&worker] { worker.StartLife(); });
    if (faults.mean_between_cuts > absl::ZeroDuration()) {
      PlanCuts(&worker, faults.mean_between_cuts);
    }
  }
  for (int i = 0; i < faults.coordinator_crashes; ++i) {
    events_.After(Draw(absl::Seconds(4)),
                  [this] { crash_in_next_step_ = coordinator_ != nullptr; });
  }
  for (int i = 0; i < faults.worker_crashes; ++i) {
    events_.After(Draw(absl::Seconds(4)), [this] {
      SimWorker& worker = SomeWorker();
      // In the last step the others may have left when it rejoins.
      if (worker.done() || worker.step_ + 1 >= kSteps) return;
      if (!worker.alive()) return;
      worker.Crash();
      // Not before the coordinator sees its broken stream: until then its name
      // is taken.
      events_.After(absl::Milliseconds(200) + Draw(absl::Seconds(1)),
                    [&worker] { worker.StartLife(); });
    });
  }
}

bool SessionWorld::AnyHasTrainedAll() const {
  return std::any_of(
      workers_.begin(), workers_.end(),
      [](const SimWorker& worker) { return worker.trained_all(); });
}

void SessionWorld::PlanCuts(SimWorker* worker, absl::Duration mean) {
  const absl::Duration wait =
      absl::Milliseconds(700) +
      mean * std::exponential_distribution<double>(1)(random_);
  events_.After(wait, [this, worker, mean] {
    if (worker->done()) return;
    if (!worker->streams_.empty()) Cut(worker->streams_.rbegin()->second);
    PlanCuts(worker, mean);
  });
}

void SessionWorld::ArriveAtStep(SimWorker* worker) {
  auto& arrived = arrived_[{worker->view().epoch.value, worker->step_}];
  arrived.push_back({worker, worker->incarnation_});
  if (arrived.size() < workers_.size()) return;
  for (const auto& [each, incarnation] : arrived) {
    events_.After(Draw(absl::Milliseconds(2)),
                  [each = each, incarnation = incarnation] {
                    if (incarnation == each->incarnation_) each->PassStep();
                  });
  }
}

}  // namespace lockstep::sim

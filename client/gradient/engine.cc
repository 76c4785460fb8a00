#include "client/gradient/engine.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"

namespace lockstep::gradient {
namespace {

using protocol::Phase;

// The rank's parameters as indices of plan.parameters: the one of that name
// whose bucket this rank takes part in.
absl::StatusOr<std::vector<int>> FindParameters(
    const plan::Plan& plan, int rank, const std::vector<std::string>& names) {
  absl::flat_hash_map<absl::string_view, int> index;
  for (const plan::Bucket& bucket : plan.buckets) {
    const std::vector<int>& members =
        plan.communicators[bucket.communicator].ranks;
    if (std::find(members.begin(), members.end(), rank) == members.end())
      continue;
    for (const plan::Slot& slot : bucket.slots) {
      index[plan.parameters[slot.parameter].name] = slot.parameter;
    }
  }
  std::vector<int> found;
  for (const std::string& name : names) {
    const auto it = index.find(name);
    if (it == index.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the plan has no bucket on rank %d for parameter %s", rank, name));
    }
    found.push_back(it->second);
  }
  return found;
}

absl::Status NotWaitedFor() {
  return absl::FailedPreconditionError(
      "the verdict of the step before was not waited for");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  if (absl::Status status = engine->Prepare(); !status.ok()) return status;
  return engine;
}

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      word_(options_.first_step),
      tally_(options_.names, options_.uses),
      times_(options_.clock->Now()) {}

Engine::~Engine() {
  Abort(absl::CancelledError("gradient synchronisation was destroyed"));
}

absl::Status Engine::Prepare() {
  const plan::Plan& plan = options_.plan;
  absl::StatusOr<std::vector<int>> parameters =
      FindParameters(plan, options_.rank, options_.names);
  if (!parameters.ok()) return parameters.status();
  absl::StatusOr<BucketStore> store =
      BucketStore::Create(plan, *parameters, options_.allocate);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  reduction_ = std::make_unique<Reduction>(
      plan, options_.rank, std::move(options_.communicators), &store_,
      [this](int c, const absl::Status& error) { Fail(c, error); });
  if (absl::Status status = reduction_->Prepare(); !status.ok()) return status;
  lane_ = std::make_unique<Lane>(reduction_->PendingByItem(),
                                 [this](int item) { Launch(item); });
  return absl::OkStatus();
}

DType Engine::DTypeOf(int parameter) const {
  return store_.bucket(store_.PlaceOf(parameter).bucket).dtype;
}

// --- Submitting
// ---------------------------------------------------------------

absl::Status Engine::Submit(int parameter, const void* gradient, size_t bytes,
                            Stream* stream) {
  if (absl::Status ended = failure(); !ended.ok()) return ended;
  if (stream != nullptr && dynamic_cast<HostStream*>(stream) == nullptr) {
    return absl::InvalidArgumentError(
        "this job's transport runs on host streams; the stream is of another "
        "kind");
  }
  Tally::Submission submission;
  {
    MutexLock lock(&mutex_);
    if (stream == nullptr && in_flight_ > 0) return NotWaitedFor();
    if (absl::Status status = CheckSubmit(parameter, gradient, bytes);
        !status.ok()) {
      return status;
    }
    absl::StatusOr<Tally::Submission> noted = tally_.Submit(parameter);
    if (!noted.ok()) return noted.status();
    submission = *noted;
  }
  phase_.store(Phase::kCompute, std::memory_order_relaxed);
  const double weight = weight_.load(std::memory_order_relaxed);
  return RunOn(stream, [=, this] {
    return Deliver(parameter, gradient, weight, submission);
  });
}

absl::Status Engine::CheckSubmit(int parameter, const void* gradient,
                                 size_t bytes) const {
  if (parameter < 0 || parameter >= static_cast<int>(options_.names.size())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("no parameter %d is registered: there are %d",
                        parameter, options_.names.size()));
  }
  const size_t expected = store_.View(parameter).size();
  if (gradient == nullptr || bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("the gradient of %s has %d bytes, %d were submitted",
                      options_.names[parameter], expected, bytes));
}

absl::Status Engine::RunOn(Stream* stream,
                           absl::AnyInvocable<absl::Status()> work) {
  if (stream == nullptr) return work();
  // A failure on the stream is this rank's; nobody is there to return it to.
  static_cast<HostStream*>(stream)->Enqueue(
      [this, work = std::move(work)]() mutable {
        absl::Status status = work();
        if (!status.ok()) Fail(-1, status);
        return status;
      });
  return absl::OkStatus();
}

absl::Status Engine::Deliver(int parameter, const void* gradient, double weight,
                             const Tally::Submission& submission) {
  if (gradient != nullptr)
    store_.Pack(parameter, gradient, weight, !submission.first);
  return submission.complete ? MarkReady(parameter, true) : absl::OkStatus();
}

absl::Status Engine::MarkReady(int parameter, bool contributed) {
  store_.SetFlag(parameter, contributed);
  const int bucket = store_.PlaceOf(parameter).bucket;
  return lane_->Ready(reduction_->ItemOfBucket(bucket));
}

absl::Status Engine::BeginNoSync() {
  MutexLock lock(&mutex_);
  return tally_.BeginNoSync();
}

void Engine::EndNoSync() {
  MutexLock lock(&mutex_);
  tally_.EndNoSync();
}

// --- Finishing
// ----------------------------------------------------------------

absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Engine::Finish(
    const FinishOptions& options, double max_norm, Stream* stream) {
  if (absl::Status ended = failure(); !ended.ok()) return ended;
  auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
  verdict->options = options;
  verdict->max_norm = max_norm;
  verdict->finish_called = options_.clock->Now();

  Tally::Incomplete incomplete;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    if (stream == nullptr && in_flight_ > 0) return NotWaitedFor();
    in_flight_ += 1;
    closing_.push_back(verdict);
    incomplete = tally_.Finish();
  }
  phase_.store(Phase::kTransfer, std::memory_order_relaxed);
  absl::Status status =
      RunOn(stream, [this, incomplete = std::move(incomplete)] {
        return CloseStep(incomplete);
      });
  if (!status.ok()) {
    Fail(-1, status);
    return status;
  }
  if (stream != nullptr) {
    static_cast<HostStream*>(stream)->Enqueue(
        [verdict] { return verdict->Settle(); });
  }
  return verdict;
}

absl::Status Engine::CloseStep(const Tally::Incomplete& incomplete) {
  for (int parameter : incomplete.never) {
    store_.Zero(parameter);
    if (absl::Status s = MarkReady(parameter, false); !s.ok()) return s;
  }
  for (int parameter : incomplete.partly) {
    if (absl::Status s = MarkReady(parameter, true); !s.ok()) return s;
  }
  return lane_->Close();
}

// --- Launching, and what comes of it --------------------------------------

void Engine::Launch(int item) {
  absl::Status status = item < reduction_->items()
                            ? reduction_->LaunchBucket(item)
                            : LaunchVerdict();
  if (!status.ok()) Fail(-1, status);
}

absl::Status Engine::LaunchVerdict() {
  std::shared_ptr<PendingVerdict::State> verdict;
  {
    MutexLock lock(&mutex_);
    if (closing_.empty()) return absl::OkStatus();  // the step was given up
    verdict = std::move(closing_.front());
    closing_.pop_front();
  }
  return reduction_->LaunchVerdict(
      verdict,
      [this] {
        phase_.store(Phase::kVerdict, std::memory_order_relaxed);
        return StepStamp{.epoch = options_.epoch,
                         .revision = options_.plan.revision,
                         .step = word_.steps()};
      },
      [this, verdict](absl::StatusOr<Verdict> reduced) {
        Judge(*verdict, std::move(reduced));
      });
}

void Engine::Judge(PendingVerdict::State& verdict,
                   absl::StatusOr<Verdict> reduced) {
  if (!reduced.ok()) Fail(reduction_->WorldFailed() ? 0 : -1, reduced.status());
  if (!reduced.ok() || !word_.Pass(verdict.stamp.step)) {
    verdict.Complete(failure());
    return;
  }
  Publish(verdict, *std::move(reduced));
}

void Engine::Publish(PendingVerdict::State& verdict, Verdict judged) {
  const int parameters = static_cast<int>(options_.names.size());
  judged.contributed.resize(parameters);
  for (int p = 0; p < parameters; ++p)
    judged.contributed[p] = store_.Contributed(p);
  verdict.scalars = {.commit = 1,
                     .finite = judged.finite ? 1.0 : 0.0,
                     .clip = judged.UpdateFactor(verdict.max_norm),
                     .samples = judged.samples};

  const absl::Time now = options_.clock->Now();
  exposed_seconds_.store(absl::ToDoubleSeconds(now - verdict.finish_called),
                         std::memory_order_relaxed);
  {
    MutexLock lock(&mutex_);
    times_.Passed(now);
    in_flight_ -= 1;
    last_verdict_.assign(reinterpret_cast<const char*>(&verdict.vectors),
                         sizeof verdict.vectors);
  }
  phase_.store(Phase::kIdle, std::memory_order_relaxed);
  verdict.Complete(std::move(judged));
}

// --- Watching and ending
// ------------------------------------------------------

protocol::Progress Engine::progress() {
  MutexLock lock(&mutex_);
  protocol::Progress progress;
  progress.position = {word_.steps(), phase_.load(std::memory_order_relaxed)};
  progress.submitted = static_cast<uint32_t>(tally_.submitted());
  if (progress.position.phase == Phase::kCompute) {
    progress.missing = tally_.MissingNames(8);
  }
  progress.step_seconds = times_.TakeMeanSeconds();
  return progress;
}

absl::Status Engine::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

void Engine::Fail(int communicator, const absl::Status& error) {
  if (!BeginFailure(error)) return;
  options_.on_failure(communicator, error);
}

protocol::EpochReport Engine::Abort(const absl::Status& cause) {
  BeginFailure(cause);
  protocol::EpochReport report;
  report.position = {word_.Quiesce(), phase_.load(std::memory_order_relaxed)};
  MutexLock lock(&mutex_);
  report.verdict = last_verdict_;
  return report;
}

bool Engine::BeginFailure(const absl::Status& error) {
  std::deque<std::shared_ptr<PendingVerdict::State>> given_up;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return false;
    failure_ = error;
    given_up = std::exchange(closing_, {});
  }
  // A verdict that was launched is completed by Judge, which may still find
  // that it passed; one that was not never will be.
  word_.Quiesce();
  if (reduction_ != nullptr) reduction_->Abort(error);
  for (const auto& verdict : given_up) verdict->Complete(error);
  return true;
}

}  // namespace lockstep::gradient

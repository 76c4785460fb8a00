// Steps in graphs that the program captures and launches itself.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {
namespace {

// How long an eager step waits for launches before it, which this rank's device
// has begun.
constexpr absl::Duration kReplayTimeout = absl::Seconds(30);
// While it is asked, no decision is read.
constexpr absl::Duration kReplayPatience = absl::Milliseconds(50);
// CUDA tells on a thread of its own that a graph was destroyed.
constexpr absl::Duration kGraphTimeout = absl::Seconds(1);

// What a graph of the program may still use.
struct LeftMemory {
  std::unique_ptr<LayoutVersions> versions;
  std::unique_ptr<StepGate> gate;
};

}  // namespace

absl::Status Engine::CheckReplays() const {
  if (run_ahead_ > 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "run_ahead is %d, but a graph has the buckets of one step, and its "
        "launches wait for no verdict without it: it must be 0",
        run_ahead_));
  }
  const Layout& layout = versions_->current();
  for (const plan::Lane& lane : layout.plan().ranks[options_.rank].lanes) {
    if (lane.kind != plan::LaneKind::kPipeline &&
        lane.kind != plan::LaneKind::kHalo) {
      continue;
    }
    return absl::FailedPreconditionError(
        "the host takes part in the steps of pipelines and halo exchanges: the "
        "program cannot launch them as a graph");
  }
  return absl::OkStatus();
}

absl::Status Engine::BeginReplays() {
  if (replays_ != nullptr) return absl::OkStatus();
  absl::Status able = CheckCapture();
  if (able.ok()) able = CheckReplays();
  if (!able.ok()) return able;
  versions_->Freeze();
  absl::Status made =
      versions_->current().store().MakeCopies(options_.allocate);
  const int world = executor_.communicator(0)->size();
  if (made.ok()) {
    made = gate_of_steps_->BeginReplays(compute_, versions_->revision(), world);
  }
  if (!made.ok()) return made;
  uint64_t launches = 0;
  {
    MutexLock lock(&mutex_);
    launches = steps_.launches();
  }
  replays_ = std::make_unique<Replays>(Replays::Options{
      .gate = gate_of_steps_.get(),
      .first_entry = launches,
      .begin = [this](uint64_t entry) { return BeginReplay(entry); },
      .decided =
          [this](const std::shared_ptr<PendingVerdict::State>& verdict) {
            DeviceEnded(verdict, absl::OkStatus());
          },
      .held =
          [this](uint64_t* saves) {
            StepSummary summary;
            *saves = gate_.Hold(&summary);
            return summary;
          },
      .ended = [this] { return ended(); },
      .is_stuck =
          [this] {
            gate_of_steps_->Stop();
            executor_.Abort(ended());
          },
      .probe =
          [this] {
            absl::Status lost = decisions_->LostDevice(kReplayPatience);
            if (!lost.ok()) Fail(-1, lost);
          }});
  replaying_ = replays_.get();
  replays_->Post();  // what came before Receive knew of them
  return absl::OkStatus();
}

// --- Capturing ---------------------------------------------------------------

absl::Status Engine::JoinCapture(Stream& stream) {
  if (absl::Status over = ended(); !over.ok()) return over;
  if (capturing_ != nullptr) return IsBeingCaptured();
  if (executor_.IsCapturedWithout(&stream)) return CaptureHasNotEnded();
  {
    // Launches may be running.
    MutexLock lock(&mutex_);
    if (tracker_.is_in_step()) {
      return absl::FailedPreconditionError(
          "the step in progress has gradients already: finish it first");
    }
  }
  auto graph = compute_.JoinCapture(stream);
  if (!graph.ok()) return graph.status();
  program_graphs_.push_back(*std::move(graph));
  joined_ = std::make_unique<Captured>();
  joined_->revision = versions_->revision();
  joined_->parts.resize(1);
  joined_->capturing().scalars = gate_of_steps_->replay_scalars();
  capturing_ = joined_.get();
  versions_->current().KeepReduced(gate_of_steps_->keeps());
  // First on the comm queue's stream: no transfer of a launch is before it.
  absl::Status begun;
  executor_.Run(
      [&](KernelQueue& kernel_queue) {
        kernel_queue.BeginReplay(gate_of_steps_->ReplayContextOf({}));
        begun = kernel_queue.status();
      },
      {stream.Record()});
  if (!begun.ok()) LeaveCapture();
  return begun;
}

void Engine::LeaveCapture() {
  if (joined_ == nullptr) return;
  const bool finished = joined_->capturing().finished;
  capturing_ = nullptr;
  joined_ = nullptr;
  versions_->current().KeepReduced(nullptr);
  compute_.LeaveCapture().IgnoreError();  // the communicators keep their errors
  if (!finished) ForgetCapture();
}

absl::Status Engine::SetReplayInput(uint64_t replay,
                                    const FinishOptions& options) {
  if (absl::Status over = ended(); !over.ok()) return over;
  if (absl::Status right = CheckFinish(options); !right.ok()) return right;
  return gate_of_steps_->SealReplay(
      replay, {.samples = options.samples,
               .more_data = options.more_data,
               .terms = {.inverse_scale = options.inverse_scale,
                         .per_sample = options.per_sample}});
}

absl::Status Engine::CaptureHasNotEnded() {
  return absl::FailedPreconditionError(
      "a capture that a step has joined has not ended: end it "
      "(cudaStreamEndCapture) before the next step");
}

// --- Launches ----------------------------------------------------------------

// On the thread of replays_.
std::shared_ptr<PendingVerdict::State> Engine::BeginReplay(uint64_t entry) {
  uint64_t saves = 0;
  const StepSummary own = gate_of_steps_->OwnOf(entry, &saves);
  auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
  verdict->options = {.samples = own.samples,
                      .inverse_scale = own.terms.inverse_scale,
                      .more_data = own.more_data,
                      .per_sample = own.terms.per_sample};
  verdict->max_norm = own.terms.max_norm.value_or(0);
  verdict->has_scalars = own.terms.max_norm.has_value();
  verdict->is_replay = true;
  verdict->closed = options_.clock->Now();
  verdict->step_id = {.epoch = options_.epoch,
                      .revision = versions_->revision(),
                      .step = options_.first_step + entry};
  {
    MutexLock lock(&mutex_);
    if (!after_the_last_.ok()) return nullptr;
    steps_.Launch(verdict, &versions_->current());
    supply_.Finish(verdict->options);
  }
  gate_.Entered(saves);
  return verdict;
}

// The next step's entry has a number once all before it are known, and acted
// on: a pause is over.
absl::Status Engine::AwaitReplays(Stream* stream) {
  if (replays_ == nullptr || capturing_ != nullptr) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    if (tracker_.is_in_step()) return absl::OkStatus();
  }
  if (executor_.IsCapturedWithout(nullptr)) return CaptureHasNotEnded();
  if (stream == nullptr) {
    return absl::FailedPreconditionError(
        "the program launches graphs: an eager step is on a stream, behind "
        "the launches that are on it");
  }
  absl::Status may = stream->Record().Wait();
  if (may.ok()) may = AwaitReplaysRead();
  return may.ok() ? replays_->BeginEager() : may;
}

absl::Status Engine::AwaitReplaysRead() {
  if (replays_ == nullptr) return absl::OkStatus();
  if (!replays_->AwaitIdle(kReplayTimeout)) {
    return absl::FailedPreconditionError(
        "launches of the program's graph are running: wait for them first");
  }
  AwaitLastVerdict();
  return absl::OkStatus();
}

// --- The end -----------------------------------------------------------------

bool Engine::AwaitProgramGraphs(absl::Duration timeout) {
  const Deadline deadline(timeout);
  while (!program_graphs_.empty()) {
    if (!program_graphs_.back()->AwaitDestroyed(deadline.Left())) return false;
    program_graphs_.pop_back();
  }
  return true;
}

absl::Status Engine::CheckNoGraphs() {
  if (AwaitProgramGraphs(kGraphTimeout)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%d CUDA graphs of the program have steps of this epoch: wait for their "
      "launches, and destroy them and what was instantiated from them, before "
      "Session::Recover",
      program_graphs_.size()));
}

// A launch would write to memory that belongs to somebody else by then.
void Engine::LeaveMemoryToGraphs() {
  if (AwaitProgramGraphs(kGraphTimeout)) return;
  static Mutex* const mutex = new Mutex;
  static auto* const left = new std::vector<LeftMemory>;  // never freed
  MutexLock lock(mutex);
  left->push_back({std::move(versions_), std::move(gate_of_steps_)});
}

}  // namespace lockstep::gradient

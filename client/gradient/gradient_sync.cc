#include "lockstep/gradient_sync.h"

#include <algorithm>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "base/thread.h"
#include "client/gradient/captured_step.h"
#include "client/gradient/disagreement.h"
#include "client/gradient/ending.h"
#include "client/gradient/gradient_sync_impl.h"
#include "client/gradient/replayed_steps.h"

namespace lockstep {

PendingVerdict::PendingVerdict(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

const VerdictScalars* PendingVerdict::scalars() const {
  return state_->scalars();
}

absl::StatusOr<Verdict> PendingVerdict::Wait() { return state_->Wait(); }

namespace {

// Only in static mode may launches wait for Finish: in other modes transfers
// must progress while the training thread does not wait.
Overlap OverlapOf(const JobSpec& spec) {
  return spec.sync == SyncMode::kStatic ? spec.overlap : Overlap::kThread;
}

}  // namespace

absl::StatusOr<ParameterId> GradientSync::Impl::Register(
    const ParameterOptions& options) {
  if (sealed()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s is registered after Seal", options.name));
  }
  if (options.uses < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: uses is %d, must be at least 1", options.name, options.uses));
  }
  Parameter parameter{.name = options.name,
                      .shape = options.shape,
                      .dtype = options.dtype,
                      .op = options.op,
                      .axes = options.axes,
                      .replicated_over = options.replicated_over,
                      .stage = options.stage};
  absl::Status valid = Validate(parameter, session_.spec().mesh);
  if (!valid.ok()) return valid;
  const int index = static_cast<int>(parameters_.size());
  if (!index_.emplace(options.name, index).second) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "a parameter named %s was registered before", options.name));
  }
  parameters_.push_back(std::move(parameter));
  names_.push_back(options.name);
  uses_.push_back(options.uses);
  return ParameterId{index};
}

absl::Status GradientSync::Impl::Seal() {
  if (sealed()) return absl::FailedPreconditionError("Seal was called before");
  absl::StatusOr<plan::Plan> plan = session_.AgreeOnPlan(parameters_);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<PlanInEffect> connected = session_.Connect(*std::move(plan));
  if (!connected.ok()) return connected.status();
  for (const plan::CommunicatorSpec& communicator :
       connected->plan.communicators) {
    groups_.push_back(communicator.ranks);
  }
  absl::Status made = MakeEngine(*std::move(connected));
  if (made.ok()) made = SetValueMemory();
  if (!made.ok()) {
    session_.ReportFailure(0, "GradientSync::Seal", made);
    return made;
  }
  session_.SetDecisionSink(
      [this](const std::vector<protocol::Decision>& decisions) {
        engine_->Decide(decisions);
      });
  session_.SetStepOwner(std::make_shared<Session::Impl::StepOwner>(
      Session::Impl::StepOwner{[this](const std::string& verdict) {
                                 return engine_->RollForward(verdict);
                               },
                               [this] { return engine_->last_verdict(); },
                               [this] { return engine_->CheckNoGraphs(); }}));
  watch_ = session_.AddWatch(
      [this](const absl::Status& cause) { OnEpochEnded(cause); });
  session_.SetProgressSource([this] { return engine_->progress(); });
  if (session_.spec().sync == SyncMode::kStatic &&
      session_.spec().reproducible.leaves == 0) {
    rebuilder_ =
        std::make_unique<gradient::BucketRebuilder>(&session_, engine_.get());
  }
  session_.SetViewListener(
      [this](const session::View& view) { engine_->Receive(view.wanted); });
  return absl::OkStatus();
}

absl::Status GradientSync::Impl::MakeEngine(PlanInEffect plan) {
  auto engine = gradient::Engine::Create(OptionsFor(std::move(plan)));
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  engine_->SetMicroBatchWeight(weight_);
  return absl::OkStatus();
}

gradient::EngineOptions GradientSync::Impl::OptionsFor(PlanInEffect plan) {
  gradient::EngineOptions options{
      .epoch = session_.epoch(),
      .first_step = session_.first_step(),
      .run_ahead = session_.spec().run_ahead,
      .spare_sets = session_.spec().buckets.windows ? 1 : 0,
      .uneven = session_.spec().uneven,
      .overlap = OverlapOf(session_.spec()),
      .plan = std::move(plan.plan),
      .rank = plan.rank,
      .executor = std::move(plan.executor),
      .names = names_,
      .uses = uses_,
      .allocate =
          [this](size_t bytes) { return session_.arena().Allocate(bytes); },
      .register_buffer =
          [this](Communicator& communicator, const ArenaBuffer& buffer) {
            return RegisterBuffer(communicator, buffer);
          },
      .clock = &session_.clock(),
      .on_failure =
          [this](int communicator, const absl::Status& error) {
            OnFailure(communicator, error);
          },
      .on_moved = std::move(on_moved_),
      .sharded = session_.spec().sync == SyncMode::kReduceScatter,
      .on_unsubmitted = session_.spec().on_unsubmitted,
      .loss_scale = loss_scale_,
      .on_last =
          [this](Ending ending) {
            session_.NoteLastStep(gradient::CommandOf(ending));
          },
      .on_grow =
          [this](const absl::Status& why, protocol::EpochReport report) {
            session_.NoteGrowth(why, std::move(report));
          },
      .explain =
          [this](const absl::Status& error) {
            return Explained("GradientSync::Finish", error);
          },
  };
  // What an aborted peer could write to is not registered, unless a spare set
  // is there for it.
  const bool is_safe = session_.spec().buckets.windows ||
                       !session_.transport().abort_writes_to_peers();
  if (!is_safe) options.register_buffer = nullptr;
  if (session_.spec().sync != SyncMode::kNegotiated) return options;
  options.announce = [this](protocol::Announce announce) {
    session_.Announce(std::move(announce));
  };
  options.submitted = [this](uint64_t pass, uint32_t parameter) {
    session_.Submitted(pass, parameter);
  };
  return options;
}

// --- Initial values ----------------------------------------------------------

absl::Status GradientSync::Impl::CompareValue(int parameter, const void* value,
                                              size_t bytes) {
  if (absl::Status known = engine_->CheckKnown(parameter); !known.ok()) {
    return known;
  }
  if (value_digests_are_reported_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the values of %s are to be compared behind the first Finish",
        names_[parameter]));
  }
  if (value == nullptr && bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the values of %s: %d bytes at a null address",
                        names_[parameter], bytes));
  }
  size_t expected = SizeOf(parameters_[parameter].dtype);
  for (const int64_t length : parameters_[parameter].shape) expected *= length;
  if (bytes != expected) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the values of %s have %d bytes, %d were given",
                        names_[parameter], expected, bytes));
  }
  digests_[engine_->PlanIndexOf(parameter)] = XXH3_64bits(value, bytes);
  return absl::OkStatus();
}

// Compares the values before the first gather, since after it all ranks have
// the same. A rank that set only its own slice, say from its part of a
// checkpoint, has no other values to compare: it compares the gathered ones.
void GradientSync::Impl::CompareBeforeGather() {
  const bool is_first = !std::exchange(has_gathered_, true);
  if (!is_first || value_digests_are_reported_ || !engine_->IsInHostMemory())
    return;
  for (int p = 0; p < static_cast<int>(names_.size()); ++p) {
    if (digests_.contains(engine_->PlanIndexOf(p))) continue;
    if (session_.state().loaded() || HasItsSliceAlone(p)) continue;
    const absl::Span<const std::byte> value = engine_->Value(p);
    CompareValue(p, value.data(), value.size()).IgnoreError();
  }
}

// Values that were not set are zeros.
bool GradientSync::Impl::HasItsSliceAlone(int parameter) {
  const absl::Span<const std::byte> value = engine_->Value(parameter);
  const size_t element = SizeOf(parameters_[parameter].dtype);
  const plan::Slice slice = engine_->SliceOf(parameter);
  const auto is_set = [](absl::Span<const std::byte> bytes) {
    return std::any_of(bytes.begin(), bytes.end(),
                       [](std::byte b) { return b != std::byte{0}; });
  };
  const size_t begin = slice.offset * element;
  const size_t end = begin + slice.count * element;
  const bool has_it =
      slice.count == 0 || is_set(value.subspan(begin, end - begin));
  return has_it && !is_set(value.subspan(0, begin)) &&
         !is_set(value.subspan(end));
}

// Compares the result of the first gather, unless compared before it.
void GradientSync::Impl::CompareGathered(int parameter) {
  if (value_digests_are_reported_ || !engine_->IsInHostMemory()) return;
  if (digests_.contains(engine_->PlanIndexOf(parameter))) return;
  const absl::Span<const std::byte> value = engine_->Value(parameter);
  CompareValue(parameter, value.data(), value.size()).IgnoreError();
}

void GradientSync::Impl::ReportValueDigests() {
  if (std::exchange(value_digests_are_reported_, true) || digests_.empty())
    return;
  protocol::ValueDigests values;
  for (const auto& [parameter, digest] : digests_) {
    values.parameters.push_back(parameter);
    values.digests.push_back(digest);
  }
  digests_.clear();
  session_.ReportValueDigests(std::move(values));
}

// During Seal no engine exists that would learn of a lost peer; the watch
// aborts the communicator.
absl::StatusOr<std::unique_ptr<transport::BufferRegistration>>
GradientSync::Impl::RegisterBuffer(Communicator& communicator,
                                   const ArenaBuffer& buffer) {
  const uint64_t watch =
      session_.AddWatch([&communicator](const absl::Status& cause) {
        communicator.Abort(std::string(cause.message()));
      });
  auto registered = session_.transport().RegisterBuffer(
      communicator, buffer, session_.spec().timeouts.connect);
  session_.RemoveWatch(watch);
  return registered;
}

void GradientSync::Impl::OnFailure(int communicator,
                                   const absl::Status& error) {
  if (communicator < 0) {
    // Ranks differ: no call of this rank is the cause.
    const char* const call =
        gradient::IsOfAllRanks(error) ? "" : "GradientSync";
    session_.ReportFailure(engine_->step(), call, error);
  } else {
    session_.ReportPeerFailure(groups_[communicator], error);
  }
}

void GradientSync::Impl::OnEpochEnded(const absl::Status& cause) {
  engine_->Abort(cause);
  if (!engine_->decides_on_device()) return ReportPosition();
  // This is the session's thread, and the report waits for the device.
  drainer_ = StartThread("ls-drain", [this] { ReportPosition(); });
}

void GradientSync::Impl::ReportPosition() {
  absl::StatusOr<protocol::EpochReport> report = engine_->Report();
  if (report.ok()) return session_.Quiesced(*std::move(report));
  session_.Leave(/*clean=*/false, report.status().ToString()).IgnoreError();
}

// --- The public class --------------------------------------------------------

absl::StatusOr<std::unique_ptr<GradientSync>> GradientSync::Create(
    Session& session) {
  if (absl::Status status = session.status(); !status.ok()) return status;
  return std::unique_ptr<GradientSync>(
      new GradientSync(std::make_unique<Impl>(session)));
}

GradientSync::GradientSync(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
GradientSync::~GradientSync() = default;

absl::StatusOr<ParameterId> GradientSync::Register(
    const ParameterOptions& options) {
  return impl_->Register(options);
}

absl::Status GradientSync::Seal() { return impl_->Seal(); }

absl::StatusOr<absl::Span<std::byte>> GradientSync::GradientBytes(
    ParameterId parameter, size_t element_bytes, bool is_count) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  gradient::Engine& engine = impl_->engine();
  absl::Status may = engine.CheckView(parameter.index, element_bytes, is_count);
  if (!may.ok()) return may;
  auto view = engine.View(parameter.index);
  if (view.ok()) return view;
  return impl_->Explained("GradientSync::Gradient", view.status());
}

absl::Status GradientSync::Submit(ParameterId parameter) {
  return Submit(parameter, nullptr, 0, nullptr);
}

absl::Status GradientSync::Submit(ParameterId parameter, Stream& stream) {
  return Submit(parameter, nullptr, 0, &stream);
}

absl::Status GradientSync::Submit(ParameterId parameter, const void* gradient,
                                  size_t bytes) {
  return SubmitBuffer(parameter, gradient, bytes, nullptr);
}

absl::Status GradientSync::Submit(ParameterId parameter, const void* gradient,
                                  size_t bytes, Stream& stream) {
  return SubmitBuffer(parameter, gradient, bytes, &stream);
}

namespace {

absl::Status CheckBuffer(const void* gradient, size_t bytes) {
  if (gradient != nullptr || bytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("a null buffer of %d bytes was submitted", bytes));
}

// An empty gradient may have a null address, which means a view elsewhere.
const void* AddressOf(const void* gradient) {
  static constexpr std::byte kNothing{};
  return gradient == nullptr ? &kNothing : gradient;
}

}  // namespace

absl::Status GradientSync::SubmitBuffer(ParameterId parameter,
                                        const void* gradient, size_t bytes,
                                        Stream* stream) {
  if (absl::Status right = CheckBuffer(gradient, bytes); !right.ok()) {
    return right;
  }
  return Submit(parameter, AddressOf(gradient), bytes, stream);
}

absl::Status GradientSync::Submit(absl::Span<const Buffer> gradients,
                                  Stream& stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  std::vector<gradient::Engine::Buffer> buffers;
  buffers.reserve(gradients.size());
  for (const Buffer& each : gradients) {
    absl::Status right = CheckBuffer(each.gradient, each.bytes);
    if (!right.ok()) return right;
    buffers.push_back(
        {each.parameter.index, AddressOf(each.gradient), each.bytes});
  }
  return impl_->Explained("GradientSync::Submit",
                          impl_->engine().SubmitAll(buffers, stream));
}

absl::Status GradientSync::Submit(ParameterId parameter, const void* gradient,
                                  size_t bytes, Stream* stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->Explained(
      "GradientSync::Submit",
      impl_->engine().Submit(parameter.index, gradient, bytes, stream));
}

absl::Status GradientSync::CompareValue(ParameterId parameter,
                                        const void* value, size_t bytes) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->CompareValue(parameter.index, value, bytes);
}

absl::Status GradientSync::BeginPass(absl::Span<const ParameterId> parameters) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  std::vector<int> indices;
  indices.reserve(parameters.size());
  for (const ParameterId parameter : parameters) {
    indices.push_back(parameter.index);
  }
  return impl_->Explained("GradientSync::BeginPass",
                          impl_->engine().BeginPass(indices));
}

absl::StatusOr<GradientSync::NoSyncScope> GradientSync::NoSync() {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  if (absl::Status status = impl_->engine().BeginNoSync(); !status.ok())
    return status;
  return NoSyncScope(this);
}

GradientSync::NoSyncScope::NoSyncScope(NoSyncScope&& other) noexcept
    : sync_(std::exchange(other.sync_, nullptr)) {}

GradientSync::NoSyncScope::~NoSyncScope() {
  if (sync_ != nullptr) sync_->impl_->engine().EndNoSync();
}

void GradientSync::SetMicroBatchWeight(double weight) {
  impl_->SetMicroBatchWeight(weight);
}

void GradientSync::OnMoved(std::function<void()> handler) {
  impl_->OnMoved(std::move(handler));
}

void GradientSync::ZeroGradients() {
  if (impl_->sealed()) impl_->engine().ZeroGradients();
}

absl::StatusOr<Verdict> GradientSync::Finish(const FinishOptions& options) {
  absl::StatusOr<PendingVerdict> pending = FinishOn(options, 0, nullptr);
  if (!pending.ok()) return pending.status();
  return pending->Wait();
}

absl::StatusOr<PendingVerdict> GradientSync::FinishAsync(
    const FinishOptions& options, double max_norm, Stream& stream) {
  return FinishOn(options, max_norm, &stream);
}

absl::StatusOr<PendingVerdict> GradientSync::FinishOn(
    const FinishOptions& options, double max_norm, Stream* stream) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  // Before the step ends: a rank that reports a later step has sent its
  // digests.
  impl_->ReportValueDigests();
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> pending =
      impl_->engine().Finish(
          options, max_norm, stream,
          [this](uint64_t launch) { impl_->KeepStepScoped(launch); });
  if (!pending.ok()) {
    return impl_->Explained("GradientSync::Finish", pending.status());
  }
  return PendingVerdict(*std::move(pending));
}

absl::StatusOr<std::unique_ptr<CapturedStep>> GradientSync::Capture(
    Stream& stream, absl::FunctionRef<absl::Status()> body) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  auto step = impl_->engine().Capture(stream, body);
  if (!step.ok()) {
    return impl_->Explained("GradientSync::Capture", step.status());
  }
  return std::make_unique<CapturedStep>(std::make_unique<CapturedStep::State>(
      &impl_->engine(), *std::move(step),
      [this](const absl::Status& error) {
        return impl_->Explained("CapturedStep::Launch", error);
      },
      [this](uint64_t launch) { impl_->KeepStepScoped(launch); }));
}

absl::StatusOr<std::unique_ptr<ReplayedSteps>> GradientSync::BeginReplays() {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  impl_->ReportValueDigests();
  if (absl::Status begun = impl_->BeginReplays(); !begun.ok()) {
    return impl_->Explained("GradientSync::BeginReplays", begun);
  }
  return std::make_unique<ReplayedSteps>(std::make_unique<ReplayedSteps::State>(
      &impl_->engine(), [this](const absl::Status& error) {
        return impl_->Explained("ReplayedSteps", error);
      }));
}

uint64_t GradientSync::step() const {
  return impl_->sealed() ? impl_->engine().step() : 0;
}

const std::vector<std::string>& GradientSync::names() const {
  return impl_->names();
}

Overlap GradientSync::overlap() const { return impl_->overlap(); }

double GradientSync::exposed_seconds() const {
  return impl_->sealed() ? impl_->engine().exposed_seconds() : 0;
}

}  // namespace lockstep

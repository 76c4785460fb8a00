// Submit: notes a gradient, and has it written to its bucket
// (gradient_writer.h).

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

absl::Status Engine::Submit(int parameter, const void* gradient, size_t bytes,
                            Stream* stream) {
  if (absl::Status right = CheckStream(stream); !right.ok()) return right;
  if (absl::Status may = AwaitReplays(stream); !may.ok()) return may;
  if (stream != nullptr) AwaitStepBefore();
  GradientTracker::Submission submission;
  StepCall call(this);
  {
    MutexLock lock(&mutex_);
    if (absl::Status may = MayStep(); !may.ok()) return may;
    call.Begin();
    if (stream == nullptr && steps_.count() > 0) return NotWaitedFor();
    const auto noted = Note(parameter, gradient, bytes);
    if (!noted.ok()) return noted.status();
    submission = *noted;
  }
  Enter(Phase::kCompute);
  const GradientWriter::SubmittedGradient submitted{
      .parameter = parameter,
      .gradient = gradient,
      .weight = weight_.load(std::memory_order_relaxed),
      .submission = submission,
      .caller_waits = stream == nullptr};
  // The work runs within the call, so the closure need not own what it writes.
  if (stream == nullptr) {
    return RunOn(nullptr, [this, &submitted](KernelQueue& kernel_queue) {
      return writer_->Write(submitted, kernel_queue);
    });
  }
  absl::Status enqueued =
      RunOn(stream, [this, submitted](KernelQueue& kernel_queue) {
        Enter(Phase::kCompute);  // it may have been in the step before
        return writer_->Write(submitted, kernel_queue);
      });
  if (enqueued.ok() && capturing_ == nullptr) NoteLazy(*stream);
  return enqueued;
}

absl::Status Engine::SubmitAll(absl::Span<const Buffer> gradients,
                               Stream& stream) {
  if (absl::Status right = CheckStream(&stream); !right.ok()) return right;
  if (absl::Status may = AwaitReplays(&stream); !may.ok()) return may;
  AwaitStepBefore();
  StepCall call(this);
  absl::Status noted;
  // By bucket, in the order of their first gradients.
  std::vector<std::vector<GradientWriter::SubmittedGradient>> groups;
  {
    MutexLock lock(&mutex_);
    if (absl::Status may = MayStep(); !may.ok()) return may;
    call.Begin();
    const BucketStore& store = versions_->current().store();
    const double weight = weight_.load(std::memory_order_relaxed);
    std::map<int, size_t> group_of;
    for (const Buffer& each : gradients) {
      const auto submission = Note(each.parameter, each.gradient, each.bytes);
      noted = submission.status();
      if (!noted.ok()) break;
      const int bucket = store.PlaceOf(each.parameter).bucket;
      const auto [group, is_new] = group_of.emplace(bucket, groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back({.parameter = each.parameter,
                                       .gradient = each.gradient,
                                       .weight = weight,
                                       .submission = *submission});
    }
  }
  if (groups.empty()) return noted;
  Enter(Phase::kCompute);
  absl::Status enqueued = RunOn(
      &stream, [this, groups = std::move(groups)](KernelQueue& kernel_queue) {
        Enter(Phase::kCompute);  // it may have been in the step before
        absl::Status done;
        for (const auto& group : groups) {
          if (done.ok()) done = writer_->WriteTogether(group, kernel_queue);
        }
        return done;
      });
  if (enqueued.ok() && capturing_ == nullptr) NoteLazy(stream);
  return enqueued.ok() ? noted : enqueued;
}

absl::Status Engine::MayStep() const {
  return failure_.ok() ? after_the_last_ : failure_;
}

absl::StatusOr<GradientTracker::Submission> Engine::Note(int parameter,
                                                         const void* gradient,
                                                         size_t bytes) {
  absl::Status may = CheckSubmit(parameter, gradient, bytes);
  if (may.ok()) may = supply_.CheckSubmit();
  if (!may.ok()) return may;
  auto noted = tracker_.Submit(parameter, gradient != nullptr);
  if (noted.ok()) uses_views_ |= gradient == nullptr;
  return noted;
}

void Engine::NoteLazy(Stream& stream) {
  Event driver = compute_.Driver(stream);
  if (driver.state() == nullptr) return;
  MutexLock lock(&mutex_);
  lazy_.push_back(std::move(driver));
}

absl::Status Engine::CheckStream(Stream* stream) const {
  const bool capturing = capturing_ != nullptr;
  bool captured = false;
  if (stream != nullptr) {
    absl::Status right = compute_.CheckStream(*stream);
    if (!right.ok()) return right;
    captured = compute_.Captures(*stream);
  }
  if (captured == capturing) return absl::OkStatus();
  return capturing ? absl::FailedPreconditionError(
                         "a step is being captured: it is submitted and "
                         "finished on streams of the capture only; a capture "
                         "that has ended is left with "
                         "ReplayedSteps::LeaveCapture")
                   : absl::InvalidArgumentError(
                         "the stream is being captured, but neither by "
                         "GradientSync::Capture, nor has it joined "
                         "(ReplayedSteps::JoinCapture)");
}

absl::Status Engine::CheckKnown(int parameter) const {
  if (parameter >= 0 && parameter < static_cast<int>(options_.names.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("no parameter %d is registered: there are %d", parameter,
                      options_.names.size()));
}

absl::Status Engine::CheckView(int parameter, size_t element_bytes,
                               bool is_count) const {
  if (absl::Status known = CheckKnown(parameter); !known.ok()) return known;
  const DType dtype = facts_[parameter].dtype;
  if (element_bytes == SizeOf(dtype) && !is_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is %s, of %d bytes an element; a view of %s of %d "
                      "bytes was asked for",
                      options_.names[parameter], Name(dtype), SizeOf(dtype),
                      is_count ? "integers" : "elements", element_bytes));
}

absl::Status Engine::CheckSubmit(int parameter, const void* gradient,
                                 size_t bytes) const {
  absl::Status may = CheckKnown(parameter);
  if (may.ok() && values_ != nullptr) may = values_->CheckBegun();
  if (!may.ok()) return may;
  if (leaves_ > 0 && gradient == nullptr && tracker_.HasSumInView(parameter)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a leaf of %s is said to be in its view, which holds the sum of those "
        "that this step submitted from buffers",
        options_.names[parameter]));
  }
  const size_t expected = facts_[parameter].bytes;
  if (gradient == nullptr || bytes == expected) {
    return CheckIsFinal(parameter, gradient);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("the gradient of %s has %d bytes, %d were submitted",
                      options_.names[parameter], expected, bytes));
}

// A gradient submitted in its view is read when it is sent, after other lanes
// have changed it; a buffer or a leaf is read now.
absl::Status Engine::CheckIsFinal(int parameter, const void* gradient) const {
  const Layout& layout = versions_->current();
  const bool is_read_now = gradient != nullptr || leaves_ > 0;
  if (!is_read_now || !layout.FollowsOthers(parameter) ||
      !executor_.IsBehindStreams(layout.TransferOf(parameter))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is submitted before its gradients of the first and the last stage "
      "were added up (pipeline.shared): submit it when on_stage_done is told "
      "of that stage, after Pipeline::Run, or in its view",
      options_.names[parameter]));
}

absl::Status Engine::RunOn(Stream* stream,
                           transport::DeviceContext::Work work) {
  if (stream == nullptr) {
    // On return the work is done, and the caller owns its buffers again.
    return compute_.Perform(nullptr, [&work](KernelQueue& kernel_queue) {
      absl::Status status = work(kernel_queue);
      return status.ok() ? kernel_queue.Done().Wait() : status;
    });
  }
  // An error on the stream fails this rank; no caller can receive it.
  return compute_.Perform(stream, [this, work = std::move(work)](
                                      KernelQueue& kernel_queue) mutable {
    // Steps that were begun before the last step passed are not needed, unless
    // other ranks have launched them.
    absl::Status over = run_ahead_ > 0 ? failure() : ended();
    if (!over.ok()) return over;
    absl::Status status = work(kernel_queue);
    if (!status.ok()) FailHere(status);
    return status;
  });
}

absl::Status Engine::BeginNoSync() {
  if (leaves_ > 0) {
    return absl::FailedPreconditionError(
        "NoSync in a job with reproducible.leaves: each Submit is a leaf");
  }
  MutexLock lock(&mutex_);
  return tracker_.BeginNoSync();
}

void Engine::EndNoSync() {
  MutexLock lock(&mutex_);
  tracker_.EndNoSync();
}

void Engine::ZeroGradients() {
  std::vector<int> resting;
  {
    MutexLock lock(&mutex_);
    if (steps_.count() > 0) return;
    resting = tracker_.Resting();
    std::erase_if(resting, [&](int p) { return tracker_.HasSumInView(p); });
  }
  if (absl::Status s = ZeroNow(resting); !s.ok()) Fail(-1, s);
}

absl::Status Engine::ZeroNow(const std::vector<int>& parameters) {
  BucketStore& store = versions_->current().store();
  return RunOn(nullptr, [&](KernelQueue& kernel_queue) {
    for (const int parameter : parameters) store.Zero(kernel_queue, parameter);
    return kernel_queue.status();
  });
}

absl::Status Engine::NotWaitedFor() {
  return absl::FailedPreconditionError(
      "the verdict of the step before was not waited for");
}

}  // namespace lockstep::gradient

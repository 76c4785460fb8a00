#include "client/executor/pipeline_run.h"

#include <utility>

namespace lockstep::executor {

void PipelineRun::Require() {
  MutexLock lock(&mutex_);
  required_ = true;
}

void PipelineRun::SetMayBegin(MayBegin may_begin) {
  MutexLock lock(&mutex_);
  may_begin_ = std::move(may_begin);
}

absl::Status PipelineRun::Begin() {
  MayBegin may_begin;
  {
    MutexLock lock(&mutex_);
    may_begin = may_begin_;
  }
  const absl::Status may = may_begin ? may_begin() : absl::OkStatus();
  if (!may.ok()) return may;
  MutexLock lock(&mutex_);
  if (state_ == State::kRunning) {
    return absl::FailedPreconditionError(
        "Pipeline::Run is called while another Run is in progress");
  }
  if (state_ == State::kOver) {
    return absl::FailedPreconditionError(
        "Pipeline::Run is called a second time in one step: call "
        "GradientSync::Finish first");
  }
  state_ = State::kRunning;
  return absl::OkStatus();
}

void PipelineRun::End() {
  MutexLock lock(&mutex_);
  state_ = State::kOver;
  task_ = nullptr;
  awaits_ = -1;
}

absl::Status PipelineRun::CheckFinish(bool has_data) const {
  MutexLock lock(&mutex_);
  if (state_ == State::kRunning) {
    return absl::FailedPreconditionError(
        "Finish is called while Pipeline::Run is in progress");
  }
  if (required_ && has_data && state_ == State::kNotBegun) {
    return absl::FailedPreconditionError(
        "Finish without Pipeline::Run in this step: the other ranks of the "
        "pipeline wait for this rank's stages");
  }
  return absl::OkStatus();
}

void PipelineRun::EndStep() {
  MutexLock lock(&mutex_);
  state_ = State::kNotBegun;
}

void PipelineRun::At(const plan::Task& task) {
  MutexLock lock(&mutex_);
  task_ = &task;
}

void PipelineRun::AwaitsRank(int rank) {
  MutexLock lock(&mutex_);
  awaits_ = rank;
}

PipelineRun::RunPosition PipelineRun::position() const {
  MutexLock lock(&mutex_);
  return {.is_running = state_ == State::kRunning,
          .task = task_ == nullptr ? "" : plan::Describe(*task_),
          .awaits = awaits_};
}

}  // namespace lockstep::executor

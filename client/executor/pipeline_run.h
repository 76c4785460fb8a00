// The state of this rank's pipeline in the current step. A rank with a pipeline
// runs it once, before Finish, in every step for which it has data.
//
//   Begin ── At(task) ── AwaitsRank ── At(task) ... ── End ──▶ Finish: EndStep
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_
#define LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "plan/ir.h"

namespace lockstep::executor {

class PipelineRun {
 public:
  // Call if the rank has a pipeline: Finish then requires a run.
  void Require();

  // Whether a run may begin. May wait for the verdict of the step before.
  using MayBegin = std::function<absl::Status()>;
  // Null: the steps have no verdicts.
  void SetMayBegin(MayBegin may_begin);

  // FailedPrecondition during a run, and after the run of this step; errors of
  // MayBegin.
  absl::Status Begin();
  void End();

  // FailedPrecondition if Finish must not be called: during a run, or without
  // one if the rank has a pipeline and `has_data`.
  absl::Status CheckFinish(bool has_data) const;
  // Call when Finish was called.
  void EndStep();

  // Sets the task that is computed next; it must belong to the plan.
  void At(const plan::Task& task);
  // Sets the world rank whose message the run waits for; -1: none.
  void AwaitsRank(int rank);

  struct RunPosition {
    bool is_running = false;
    std::string task;  // for people; empty before the first
    int awaits = -1;
  };
  RunPosition position() const;

 private:
  enum class State { kNotBegun, kRunning, kOver };

  mutable Mutex mutex_;
  MayBegin may_begin_ ABSL_GUARDED_BY(mutex_);
  bool required_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNotBegun;
  const plan::Task* task_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int awaits_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_

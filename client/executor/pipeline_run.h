// Where this rank's pipeline is in the run of its step. A rank that has a
// pipeline runs it once in every step that it has data for, before Finish.
//
//   Begin ── At(task) ── AwaitsRank ── At(task) ... ── End ──▶ Finish: EndStep
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_
#define LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "plan/ir.h"

namespace lockstep::executor {

class PipelineRun {
 public:
  // There is a pipeline.
  void Require();

  // FailedPrecondition in a run, and behind that of this step.
  absl::Status Begin();
  void End();

  // May Finish be called? FailedPrecondition in a run; and, if there is a
  // pipeline and this rank `has_data`, without one.
  absl::Status CheckFinish(bool has_data) const;
  // Finish was called.
  void EndStep();

  // The task that is to be computed next, from now on: the plan's.
  void At(const plan::Task& task);
  // The run waits for a message of that rank of the world; -1: it does not.
  void AwaitsRank(int rank);

  struct Position {
    bool is_running = false;
    std::string task;  // for people; empty before the first
    int awaits = -1;
  };
  Position position() const;

 private:
  enum class State { kNotBegun, kRunning, kOver };

  mutable Mutex mutex_;
  bool required_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNotBegun;
  const plan::Task* task_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int awaits_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_PIPELINE_RUN_H_

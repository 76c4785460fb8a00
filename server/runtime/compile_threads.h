// Runs compilations outside the coordinator's loop: a large plan takes seconds,
// and other jobs' events must not wait for it.
//
// Two threads, so that a second job's plan need not wait for a large one.
//
// Threads: Run from any. `done` is called on a compile thread. The destructor
//          waits for running compilations and drops queued ones without a call.

#ifndef LOCKSTEP_SERVER_RUNTIME_COMPILE_THREADS_H_
#define LOCKSTEP_SERVER_RUNTIME_COMPILE_THREADS_H_

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/core/compilation.h"

namespace lockstep::runtime {

class CompileThreads {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<core::CompiledPlan>)>;

  explicit CompileThreads(core::PlanCodec codec);
  ~CompileThreads();
  CompileThreads(const CompileThreads&) = delete;
  CompileThreads& operator=(const CompileThreads&) = delete;

  void Run(std::shared_ptr<const core::CompileInput> input, Done done);

 private:
  struct CompileTask {
    std::shared_ptr<const core::CompileInput> input;
    Done done;
  };

  void Work();

  const core::PlanCodec codec_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<CompileTask> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_COMPILE_THREADS_H_

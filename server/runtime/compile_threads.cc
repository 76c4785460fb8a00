#include "server/runtime/compile_threads.h"

#include <utility>

#include "base/thread.h"

namespace lockstep::runtime {
namespace {

constexpr int kThreads = 2;

}  // namespace

CompileThreads::CompileThreads(core::PlanCodec codec)
    : codec_(std::move(codec)) {
  for (int i = 0; i < kThreads; ++i) {
    threads_.push_back(StartThread("ls-compile", [this] { Work(); }));
  }
}

CompileThreads::~CompileThreads() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void CompileThreads::Run(std::shared_ptr<const core::CompileInput> input,
                         Done done) {
  MutexLock lock(&mutex_);
  tasks_.push_back({std::move(input), std::move(done)});
  changed_.NotifyAll();
}

void CompileThreads::Work() {
  while (true) {
    CompileTask task;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && tasks_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.done(core::MakePlan(*task.input, codec_));
  }
}

}  // namespace lockstep::runtime

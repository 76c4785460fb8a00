#include "lockstep/stream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "base/check.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/ring.h"
#include "base/thread.h"

namespace lockstep {

// Work is numbered in the order it is enqueued. The thread runs the work that
// was enqueued for it (kThread), and all before that. A thread that waits for
// the rest (kOnWait) runs it.
//
//   taken_ ┐        ┌ owed_        ┌ pushed_
//          [4][5][6][7] [8][9][10][11]
//           the thread   waiters
class HostStream::Queue {
 public:
  using Work = absl::AnyInvocable<absl::Status()>;

  Queue(std::string name, Execution execution)
      : name_(std::move(name)), execution_(execution) {}

  // Runs all enqueued work. Nothing may be enqueued afterwards.
  void Close() {
    Check(!RunsHere(), "a stream cannot be destroyed by its own work");
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      if (thread_.joinable()) owed_ = pushed_;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
    RunUntil(
        UINT64_MAX, [] { return false; }, Deadline(absl::InfiniteDuration()));
  }

  absl::Status SetExecution(Execution execution) {
    MutexLock lock(&mutex_);
    if (execution_ == execution) return absl::OkStatus();
    if (execution == Execution::kInline || execution_ == Execution::kInline) {
      return absl::InvalidArgumentError(
          "a stream cannot become kInline, or cease to be");
    }
    execution_ = execution;
    return absl::OkStatus();
  }

  Execution execution() const {
    MutexLock lock(&mutex_);
    return execution_;
  }

  // Returns the number of the work.
  uint64_t Push(Work work) {
    uint64_t number = 0;
    {
      MutexLock lock(&mutex_);
      number = ++pushed_;
      if (!RunsNow()) {
        work_.push_back(std::move(work));
        if (execution_ == Execution::kThread) OweThread();
        return number;
      }
      Begin();
    }
    RunOnwards(Perform(std::move(work)));
    return number;
  }

  bool TryRun(absl::FunctionRef<absl::Status()> work) {
    {
      MutexLock lock(&mutex_);
      if (!RunsNow()) return false;
      ++pushed_;
      Begin();
    }
    RunOnwards(work());
    return true;
  }

  bool Idle() const {
    MutexLock lock(&mutex_);
    return IsIdle();
  }

  static absl::Status WaitsForItself() {
    return absl::FailedPreconditionError(
        "a stream's own work cannot wait for the stream");
  }

  bool RunsHere() const {
    MutexLock lock(&mutex_);
    return IsRunner();
  }

  // The first error so far, if nothing is left to wait for.
  std::optional<absl::Status> TakeErrorIfIdle() {
    MutexLock lock(&mutex_);
    if (IsRunner()) return WaitsForItself();
    if (!IsIdle()) return std::nullopt;
    return std::exchange(error_, absl::OkStatus());
  }

  // Runs queued work, or waits for the thread that does, until `done` or the
  // queue is empty. Returns at once if the thread will run `number`.
  void RunUntil(uint64_t number, absl::FunctionRef<bool()> done,
                const Deadline& deadline) {
    while (std::optional<Work> next = TakeUntil(number, done, deadline)) {
      Run(*std::move(next));
    }
  }

  absl::Status TakeError() {
    MutexLock lock(&mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

 private:
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return work_.empty() && !busy_;
  }
  bool IsRunner() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return busy_ && runner_ == std::this_thread::get_id();
  }
  // Whether the enqueuing thread runs new work itself, now.
  bool RunsNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return execution_ == Execution::kInline && !busy_;
  }

  void OweThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    owed_ = pushed_;
    if (!thread_.joinable()) {
      thread_ = StartThread(name_, [this] { RunThread(); });
    }
    changed_.NotifyOne();
  }

  void RunThread() {
    while (std::optional<Work> work = TakeOwed()) Run(*std::move(work));
  }

  void Run(Work work) {
    absl::Status status = Perform(std::move(work));
    MutexLock lock(&mutex_);
    End(std::move(status));
  }

  // Ends the work that ran here with `status`, then runs all that was enqueued
  // meanwhile.
  void RunOnwards(absl::Status status) {
    while (std::optional<Work> next = EndForNext(std::move(status))) {
      status = Perform(*std::move(next));
    }
  }
  std::optional<Work> EndForNext(absl::Status status) {
    MutexLock lock(&mutex_);
    End(std::move(status));
    return TakeFirst();
  }

  // Destroys the work, with its captures, before End publishes that it is done.
  static absl::Status Perform(Work work) { return work(); }

  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++taken_;
    busy_ = true;
    runner_ = std::this_thread::get_id();
  }
  void End(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    busy_ = false;
    if (error_.ok()) error_ = std::move(status);
    changed_.NotifyAll();
  }

  // Waits for work that the thread owes. nullopt if the stream is closed and
  // none is left.
  std::optional<Work> TakeOwed() {
    MutexLock lock(&mutex_);
    while (busy_ || taken_ >= owed_) {
      if (closing_ && taken_ >= owed_) return std::nullopt;
      changed_.Wait(&mutex_);
    }
    return TakeFirst();
  }

  // Waits until this caller may run the next work. nullopt if none is left for
  // it.
  std::optional<Work> TakeUntil(uint64_t number, absl::FunctionRef<bool()> done,
                                const Deadline& deadline) {
    MutexLock lock(&mutex_);
    while (number > owed_ && !done() && !deadline.Passed()) {
      if (!busy_ && taken_ >= owed_) return TakeFirst();
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    return std::nullopt;
  }

  std::optional<Work> TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (work_.empty()) return std::nullopt;
    std::optional<Work> next(work_.pop_front());
    Begin();
    return next;
  }

  const std::string name_;
  mutable Mutex mutex_;
  CondVar changed_;
  Execution execution_ ABSL_GUARDED_BY(mutex_);
  std::thread::id runner_ ABSL_GUARDED_BY(mutex_);  // valid while busy_
  Ring<Work> work_ ABSL_GUARDED_BY(mutex_);
  uint64_t pushed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t owed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // started under mutex_, joined only by Close
};

// The state of an event: done once the queue has reached it.
class HostStream::EventState final : public Event::State {
 public:
  explicit EventState(const std::shared_ptr<Queue>& queue) : queue_(queue) {}

  // Called once, before any Wait.
  void set_number(uint64_t number) { number_ = number; }

  void Come() {
    MutexLock lock(&mutex_);
    done_ = true;
    came_.NotifyAll();
  }

  bool Done() const override {
    MutexLock lock(&mutex_);
    return done_;
  }

  absl::Status Wait(absl::Duration timeout) const override {
    const Deadline deadline(timeout);
    if (const std::shared_ptr<Queue> queue = queue_.lock()) {
      if (!Done() && queue->RunsHere()) return Queue::WaitsForItself();
      queue->RunUntil(
          number_, [this] { return Done(); }, deadline);
    }
    MutexLock lock(&mutex_);
    while (!done_) {
      if (deadline.Passed()) {
        return absl::DeadlineExceededError("the stream has not got there yet");
      }
      came_.WaitFor(&mutex_, deadline.Left());
    }
    return absl::OkStatus();
  }

 private:
  const std::weak_ptr<Queue> queue_;
  uint64_t number_ = 0;
  mutable Mutex mutex_;
  mutable CondVar came_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

HostStream::HostStream(std::string name, Execution execution)
    : queue_(std::make_shared<Queue>(std::move(name), execution)) {}

HostStream::~HostStream() { queue_->Close(); }

absl::Status HostStream::SetExecution(Execution execution) {
  return queue_->SetExecution(execution);
}

HostStream::Execution HostStream::execution() const {
  return queue_->execution();
}

void HostStream::Enqueue(absl::AnyInvocable<absl::Status()> work) {
  queue_->Push(std::move(work));
}

bool HostStream::TryRun(absl::FunctionRef<absl::Status()> work) {
  return queue_->TryRun(work);
}

Event HostStream::Record() {
  if (queue_->Idle()) return Event();
  auto moment = std::make_shared<EventState>(queue_);
  moment->set_number(queue_->Push([moment] {
    moment->Come();
    return absl::OkStatus();
  }));
  return Event(std::move(moment));
}

void HostStream::WaitFor(const Event& event) {
  if (event.Done()) return;
  queue_->Push([event] { return event.Wait(); });
}

absl::Status HostStream::Synchronize() {
  if (std::optional<absl::Status> error = queue_->TakeErrorIfIdle()) {
    return *std::move(error);
  }
  if (absl::Status waited = Record().Wait(); !waited.ok()) return waited;
  return queue_->TakeError();
}

}  // namespace lockstep

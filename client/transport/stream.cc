#include "lockstep/stream.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/check.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace lockstep {
namespace {

// A moment of a host queue: a door that opens once.
class HostMoment final : public Event::State {
 public:
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
  mutable Mutex mutex_;
  mutable CondVar came_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

class HostStream::Queue {
 public:
  using Work = absl::AnyInvocable<absl::Status()>;

  Queue(std::string name, Execution execution)
      : name_(std::move(name)), inline_(execution == Execution::kInline) {}

  ~Queue() {
    Check(!OnThread(), "a stream cannot be destroyed by its own work");
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      changed_.NotifyOne();
      while (inline_ && busy_) idle_.Wait(&mutex_);
    }
    if (thread_.joinable()) thread_.join();
  }

  void Push(Work work) {
    {
      MutexLock lock(&mutex_);
      work_.push_back(std::move(work));
      if (!inline_) return WakeThread();
    }
    RunWhatIsThere();
  }

  bool Idle() const {
    MutexLock lock(&mutex_);
    return work_.empty() && !busy_;
  }

  bool OnThread() const {
    MutexLock lock(&mutex_);
    return busy_ && runner_ == std::this_thread::get_id();
  }

  absl::Status TakeError() {
    MutexLock lock(&mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

 private:
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!thread_.joinable()) {
      thread_ = StartThread(name_, [this] { Run(); });
      runner_ = thread_.get_id();
    }
    changed_.NotifyOne();
  }

  void Run() {
    while (std::optional<Work> work = Next()) Finish(*std::move(work));
  }

  void RunWhatIsThere() {
    while (std::optional<Work> work = Take()) Finish(*std::move(work));
  }

  void Finish(Work work) {
    absl::Status status = work();
    work = nullptr;  // what it holds is let go before anybody hears of its end
    MutexLock lock(&mutex_);
    busy_ = false;
    idle_.NotifyAll();
    if (error_.ok()) error_ = std::move(status);
  }

  // Waits; none when the stream is closed and nothing is left.
  std::optional<Work> Next() {
    MutexLock lock(&mutex_);
    while (work_.empty() && !closing_) changed_.Wait(&mutex_);
    return TakeFirst();
  }

  // None if there is none, or if somebody else has begun to run what is there.
  std::optional<Work> Take() {
    MutexLock lock(&mutex_);
    if (busy_) return std::nullopt;
    runner_ = std::this_thread::get_id();
    return TakeFirst();
  }

  std::optional<Work> TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (work_.empty()) return std::nullopt;
    std::optional<Work> next(std::move(work_.front()));
    work_.pop_front();
    busy_ = true;
    return next;
  }

  const std::string name_;
  const bool inline_;
  mutable Mutex mutex_;
  CondVar changed_;
  CondVar idle_;
  std::thread::id runner_ ABSL_GUARDED_BY(mutex_);  // of what is busy
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // started under mutex_, joined by the destructor alone
};

HostStream::HostStream(std::string name, Execution execution)
    : queue_(std::make_unique<Queue>(std::move(name), execution)) {}

HostStream::~HostStream() = default;

void HostStream::Enqueue(absl::AnyInvocable<absl::Status()> work) {
  queue_->Push(std::move(work));
}

Event HostStream::Record() {
  if (queue_->Idle()) return Event();
  auto moment = std::make_shared<HostMoment>();
  queue_->Push([moment] {
    moment->Come();
    return absl::OkStatus();
  });
  return Event(std::move(moment));
}

void HostStream::WaitFor(const Event& event) {
  if (event.Done()) return;
  queue_->Push([event] { return event.Wait(); });
}

absl::Status HostStream::Synchronize() {
  Check(!queue_->OnThread(), "a stream's own work cannot wait for the stream");
  if (absl::Status waited = Record().Wait(); !waited.ok()) return waited;
  return queue_->TakeError();
}

}  // namespace lockstep

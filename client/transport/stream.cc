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

  explicit Queue(std::string name) : name_(std::move(name)) {}

  ~Queue() {
    Check(!OnThread(), "a stream cannot be destroyed by its own work");
    {
      MutexLock lock(&mutex_);
      closing_ = true;
      changed_.NotifyOne();
    }
    if (thread_.joinable()) thread_.join();
  }

  void Push(Work work) {
    MutexLock lock(&mutex_);
    work_.push_back(std::move(work));
    if (!thread_.joinable()) {
      thread_ = StartThread(name_, [this] { Run(); });
    }
    changed_.NotifyOne();
  }

  bool Idle() const {
    MutexLock lock(&mutex_);
    return work_.empty() && !busy_;
  }

  bool OnThread() const {
    MutexLock lock(&mutex_);
    return thread_.get_id() == std::this_thread::get_id();
  }

  absl::Status TakeError() {
    MutexLock lock(&mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

 private:
  void Run() {
    while (std::optional<Work> work = Next()) {
      absl::Status status = (*work)();
      work.reset();  // what it holds is let go before anybody hears of its end
      Finished(std::move(status));
    }
  }

  // Waits; none when the stream is closed and nothing is left.
  std::optional<Work> Next() {
    MutexLock lock(&mutex_);
    while (work_.empty() && !closing_) changed_.Wait(&mutex_);
    if (work_.empty()) return std::nullopt;
    std::optional<Work> next(std::move(work_.front()));
    work_.pop_front();
    busy_ = true;
    return next;
  }

  void Finished(absl::Status status) {
    MutexLock lock(&mutex_);
    busy_ = false;
    if (error_.ok()) error_ = std::move(status);
  }

  const std::string name_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Work> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // started under mutex_, joined by the destructor alone
};

HostStream::HostStream(std::string name)
    : queue_(std::make_unique<Queue>(std::move(name))) {}

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

// The stream that a call of a collective runs on, and its outcome: errors of
// the call's work on this rank, which belong to this call and not to others of
// the stream.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_CALL_STREAM_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_CALL_STREAM_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "lockstep/stream.h"

namespace lockstep::collectives {

class CallOutcome {
 public:
  // Keeps the first error.
  void Update(const absl::Status& status) {
    if (status.ok()) return;
    MutexLock lock(&mutex_);
    status_.Update(status);
  }
  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class CallStream {
 public:
  // `outcome` may be null: errors are the stream's only.
  CallStream(HostStream& stream, std::shared_ptr<CallOutcome> outcome)
      : stream_(stream), outcome_(std::move(outcome)) {}

  HostStream& stream() const { return stream_; }

  template <typename Work>
  void Enqueue(Work work) {
    if (outcome_ == nullptr) return stream_.Enqueue(std::move(work));
    stream_.Enqueue([work = std::move(work), outcome = outcome_] {
      absl::Status status = work();
      outcome->Update(status);
      return status;
    });
  }

 private:
  HostStream& stream_;
  const std::shared_ptr<CallOutcome> outcome_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_CALL_STREAM_H_

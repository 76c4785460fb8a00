// The state of a host communicator, from its connection to its first error. Its
// callers and the thread of its stream share it.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/common/collective_executor.h"
#include "client/transport/common/collective_op.h"

namespace lockstep::transport {

class CommunicatorState {
 public:
  // `where`: the prefix of every error, which names the group and the rank.
  CommunicatorState(std::unique_ptr<CollectiveExecutor> executor,
                    std::string where)
      : executor_(std::move(executor)), where_(std::move(where)) {}

  // Executes `calls` as one group, on the calling thread, and blocks until they
  // are done. Returns the communicator's first error, if any.
  absl::Status Run(std::span<const CollectiveOp> calls);

  // Makes `error` the first, unless there is one, and calls
  // CollectiveExecutor::Shutdown.
  void Fail(const absl::Status& error);

  absl::Status status() const;

  // Fails, blocks until no operation runs, and destroys the executor. A later
  // Run returns at once; no other method may be called.
  void Close();

 private:
  static constexpr uint64_t kFailed = uint64_t{1} << 32;

  bool failed() const { return (state_.load() & kFailed) != 0; }
  absl::Status Leave();  // returns the first error

  std::unique_ptr<CollectiveExecutor> executor_;
  const std::string where_;

  // The number of running calls of Run, with kFailed after the first error.
  // Before that Run takes no lock.
  std::atomic<uint64_t> state_{0};
  mutable Mutex mutex_;
  CondVar left_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_STATE_H_

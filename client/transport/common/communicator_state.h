// One rank's part in a group, from connected to first error: what callers of a
// host communicator and its stream's thread share.
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
  // `where` begins every error: which group, which rank.
  CommunicatorState(std::unique_ptr<Executor> executor, std::string where)
      : executor_(std::move(executor)), where_(std::move(where)) {}

  // Executes `calls` as one group, on the calling thread, and blocks until they
  // are done. The first error, if there is one by then.
  absl::Status Run(std::span<const CollectiveOp> calls);

  // Makes `error` the first, unless there is one, and cuts the executor off.
  void Fail(const absl::Status& error);

  absl::Status status() const;

  // Fails, blocks until nothing runs, and lets the executor go. Run then
  // returns at once; nothing else may be called.
  void Close();

 private:
  static constexpr uint64_t kFailed = uint64_t{1} << 32;

  bool failed() const { return (state_.load() & kFailed) != 0; }
  absl::Status Leave();  // the first error

  std::unique_ptr<Executor> executor_;
  const std::string where_;

  // How many run, with kFailed once there is an error: until then who runs
  // takes no lock.
  std::atomic<uint64_t> state_{0};
  mutable Mutex mutex_;
  CondVar left_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_STATE_H_

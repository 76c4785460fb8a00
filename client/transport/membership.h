// One rank's part in a group, from connected to first error: what callers of a
// host communicator and its stream's thread share.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_MEMBERSHIP_H_
#define LOCKSTEP_CLIENT_TRANSPORT_MEMBERSHIP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/call.h"
#include "client/transport/executor.h"

namespace lockstep::transport {

class Membership {
 public:
  // `where` begins every error: which group, which rank.
  Membership(std::unique_ptr<Executor> executor, std::string where)
      : executor_(std::move(executor)), where_(std::move(where)) {}

  // Executes `calls` as one group, on the calling thread, and blocks until they
  // are done. The first error, if there is one by then.
  absl::Status Run(const std::vector<Call>& calls);

  // Makes `error` the first, unless there is one, and cuts the executor off.
  void Fail(const absl::Status& error);

  absl::Status status() const;

  // Fails, blocks until nothing runs, and lets the executor go. Run then
  // returns at once; nothing else may be called.
  void Close();

 private:
  bool Enter();
  absl::Status Leave();  // the first error

  std::unique_ptr<Executor> executor_;
  const std::string where_;

  mutable Mutex mutex_;
  CondVar left_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_MEMBERSHIP_H_

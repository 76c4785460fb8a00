#include "server/rpc/open_calls.h"

#include "absl/time/clock.h"

namespace lockstep::rpc {

bool OpenCalls::AwaitNone(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (count_ > 0) {
    const absl::Duration rest = deadline - absl::Now();
    if (rest <= absl::ZeroDuration()) return false;
    none_.WaitFor(&mutex_, rest);
  }
  return true;
}

}  // namespace lockstep::rpc

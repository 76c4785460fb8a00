// Streams on which the first message, Hello, has not been received: at most so
// many, and each for so long.
//
//   Add ──Hello──▶ Remove
//    ├──one too many──▶ the oldest goes, since a worker's Hello follows at once
//    └──timeout──▶ TakeExpired
//
// So neither connections that send nothing nor those that send a byte at a time
// keep workers from joining.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_RUNTIME_HELLO_WAITS_H_
#define LOCKSTEP_SERVER_RUNTIME_HELLO_WAITS_H_

#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "protocol/limit_use.h"
#include "server/core/event.h"

namespace lockstep::runtime {

struct HelloLimits {
  int64_t streams = 1000;
  absl::Duration timeout = absl::Seconds(10);
};

class HelloWaits {
 public:
  explicit HelloWaits(const HelloLimits& limits);

  // A stream was opened; sessions must rise. Returns the one to end instead, if
  // there are too many now.
  std::optional<core::SessionId> Add(core::SessionId session, absl::Time now);
  // The stream has ended, or its Hello was received.
  void Remove(core::SessionId session) { opened_.erase(session); }

  // Removes and returns those that have waited for the timeout.
  std::vector<core::SessionId> TakeExpired(absl::Time now);
  // When TakeExpired could return something; InfiniteFuture: not before an Add.
  absl::Time Next() const;

  const HelloLimits& limits() const { return limits_; }
  std::vector<LimitUse> Uses() const;

 private:
  const HelloLimits limits_;
  std::map<core::SessionId, absl::Time> opened_;
  LimitUse streams_;
  LimitUse seconds_;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_HELLO_WAITS_H_

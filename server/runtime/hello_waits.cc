#include "server/runtime/hello_waits.h"

namespace lockstep::runtime {

HelloWaits::HelloWaits(const HelloLimits& limits)
    : limits_(limits),
      streams_{.name = "streams_without_hello", .value = limits.streams},
      seconds_{.name = "hello_seconds",
               .value = absl::ToInt64Seconds(limits.timeout)} {}

std::optional<core::SessionId> HelloWaits::Add(core::SessionId session,
                                               absl::Time now) {
  opened_.emplace(session, now);
  if (streams_.Admits(static_cast<int64_t>(opened_.size()))) {
    return std::nullopt;
  }
  const core::SessionId oldest = opened_.begin()->first;
  opened_.erase(opened_.begin());
  return oldest;
}

std::vector<core::SessionId> HelloWaits::TakeExpired(absl::Time now) {
  std::vector<core::SessionId> expired;
  while (Next() <= now) {
    expired.push_back(opened_.begin()->first);
    opened_.erase(opened_.begin());
    ++seconds_.refused;
  }
  return expired;
}

absl::Time HelloWaits::Next() const {
  return opened_.empty() ? absl::InfiniteFuture()
                         : opened_.begin()->second + limits_.timeout;
}

std::vector<LimitUse> HelloWaits::Uses() const {
  LimitUse streams = streams_;
  streams.used = static_cast<int64_t>(opened_.size());
  return {std::move(streams), seconds_};
}

}  // namespace lockstep::runtime

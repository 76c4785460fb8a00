#include "server/rpc/connection_limit.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::rpc {

ConnectionLimit::AcceptDecision ConnectionLimit::Accepted(int descriptor,
                                                          int64_t limit,
                                                          absl::Time now) {
  if (descriptor < limit - kReserve) {
    if (!std::exchange(told_, false)) return {.keep = true};
    return {.keep = true,
            .log = absl::StrFormat(
                "connections are accepted again; %d were refused",
                std::exchange(refused_, 0))};
  }
  if (!CountRefusal(now)) return {};
  return {.log = absl::StrFormat(
              "%d of %d file descriptors are in use and the last %d are "
              "reserved: connections are refused until others are closed; "
              "streams that are open go on (ulimit -n)",
              descriptor, limit, kReserve)};
}

std::string ConnectionLimit::Full(int64_t connections_max, absl::Time now) {
  if (!CountRefusal(now)) return "";
  return absl::StrFormat(
      "%d connections are open, and no more are taken (lockstepd "
      "--connections_max): connections are refused until others are closed",
      connections_max);
}

std::string ConnectionLimit::NotAccepted(int error, absl::Time now) {
  if (!CountRefusal(now)) return "";
  return absl::StrFormat(
      "connections cannot be accepted: %s; this is tried again",
      std::strerror(error));
}

bool ConnectionLimit::CountRefusal(absl::Time now) {
  refused_ += 1;
  if (now < told_at_ + kQuiet) return false;
  told_ = true;
  told_at_ = now;
  return true;
}

}  // namespace lockstep::rpc

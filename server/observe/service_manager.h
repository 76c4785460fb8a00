// Tells systemd what the daemon does, for units of Type=notify.
//
//   Ready("listening on ...")  ──"READY=1\nSTATUS=..."──▶  $NOTIFY_SOCKET
//   Stopping("...")            ──"STOPPING=1\n..."────▶    one datagram each
//   Alive()                    ──"WATCHDOG=1"─────────▶
//
// The protocol is that of sd_notify(3), which is stable and written out there.
// libsystemd would do the same, and bring four decompressors into a process
// that has keys, on each system, with systemd or without.
//
// Threads: any.
// Errors:  each call returns that of the kernel, and the daemon goes on.

#ifndef LOCKSTEP_SERVER_OBSERVE_SERVICE_MANAGER_H_
#define LOCKSTEP_SERVER_OBSERVE_SERVICE_MANAGER_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep::observe {

class ServiceManager {
 public:
  // `address` is the value of NOTIFY_SOCKET: a path, or "@name" in the abstract
  // namespace. Empty: nobody is told anything.
  explicit ServiceManager(std::string address) : address_(std::move(address)) {}

  // The service is up. May be repeated, to replace the line of `systemctl
  // status`.
  absl::Status Ready(absl::string_view status) const;
  // It goes down in order.
  absl::Status Stopping(absl::string_view status) const;
  // It is not stuck: WATCHDOG=1, within each WatchdogInterval.
  absl::Status Alive() const;

 private:
  absl::Status SendWith(absl::string_view state,
                        absl::string_view status) const;
  absl::Status Send(const std::string& message) const;

  const std::string address_;
};

// The unit's WatchdogSec, after which systemd ends a service that has not said
// that it is alive. `microseconds` and `pid` are the values of WATCHDOG_USEC
// and WATCHDOG_PID. InfiniteDuration: none, or for another process.
absl::Duration WatchdogInterval(const std::string& microseconds,
                                const std::string& pid, pid_t own);

}  // namespace lockstep::observe

#endif  // LOCKSTEP_SERVER_OBSERVE_SERVICE_MANAGER_H_

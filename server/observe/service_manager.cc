#include "server/observe/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/text/utf8.h"

namespace lockstep::observe {
namespace {

// systemd reads at once; one that hangs must not keep the daemon.
constexpr timeval kTimeout = {.tv_sec = 1, .tv_usec = 0};

absl::Status Failed(absl::string_view call, const std::string& address) {
  return absl::ErrnoToStatus(
      errno, absl::StrCat("NOTIFY_SOCKET ", Printable(address), ": ", call));
}

}  // namespace

absl::Status ServiceManager::Ready(absl::string_view status) const {
  return SendWith("READY=1", status);
}

absl::Status ServiceManager::Stopping(absl::string_view status) const {
  return SendWith("STOPPING=1", status);
}

absl::Status ServiceManager::Alive() const { return Send("WATCHDOG=1"); }

absl::Status ServiceManager::SendWith(absl::string_view state,
                                      absl::string_view status) const {
  return Send(absl::StrCat(state, "\nSTATUS=", Printable(status)));
}

absl::Status ServiceManager::Send(const std::string& message) const {
  if (address_.empty()) return absl::OkStatus();
  sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
  const bool fits = (address_[0] == '/' || address_[0] == '@') &&
                    address_.size() < sizeof to.sun_path;
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("NOTIFY_SOCKET ", Printable(address_),
                     " is neither a path nor @NAME of less than ",
                     sizeof to.sun_path, " bytes"));
  }
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') to.sun_path[0] = '\0';  // abstract
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failed("socket", address_);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ssize_t sent =
      sendto(socket.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&to), length);
  return sent < 0 ? Failed("sendto", address_) : absl::OkStatus();
}

absl::Duration WatchdogInterval(const std::string& microseconds,
                                const std::string& pid, pid_t own) {
  int64_t number = 0;
  pid_t of = own;
  if (!absl::SimpleAtoi(microseconds, &number) || number <= 0 ||
      (!pid.empty() && !absl::SimpleAtoi(pid, &of)) || of != own) {
    return absl::InfiniteDuration();
  }
  return absl::Microseconds(number);
}

}  // namespace lockstep::observe

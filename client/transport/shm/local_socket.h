// Unix sockets that carry messages and open files between the processes of one
// host. Their names are abstract: they lie in no file system, and end with the
// socket.
//
// Threads: as the kernel's sockets. Nothing here blocks or raises a signal.
// Errors:  Unavailable unless said otherwise. ResourceExhausted where a limit
// of
//          this process or its user was met (open files, files on their way),
//          which is no fault of the other end. WouldBlock is an answer, not an
//          error.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_SOCKET_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_SOCKET_H_

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace lockstep::transport {

absl::StatusOr<FileDescriptor> ListenLocally(const std::string& name);
absl::StatusOr<FileDescriptor> DialLocally(const std::string& name);
// None if nobody is waiting at `listener`.
absl::StatusOr<std::optional<FileDescriptor>> Accept(int listener);

// Whether the process at the other end runs as the same user as this one.
bool IsSameUser(int socket);

absl::Status SendBytes(int socket, const void* data, size_t bytes,
                       const std::vector<int>& files);

struct Received {
  size_t bytes = 0;  // 0: the other end is closed
  std::vector<FileDescriptor> files;
};
// None if there is no message. A message of more than `bytes` counts as none
// that we know: bytes is then larger.
absl::StatusOr<std::optional<Received>> ReceiveBytes(int socket, void* data,
                                                     size_t bytes);

template <typename T>
absl::Status SendMessage(int socket, const T& message,
                         const std::vector<int>& files = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  return SendBytes(socket, &message, sizeof message, files);
}

// This very process, as a descriptor that becomes readable when it has ended.
absl::StatusOr<FileDescriptor> OpenThisProcess();

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_SOCKET_H_

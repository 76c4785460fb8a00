// Unix sockets that carry messages and file descriptors between the processes
// of one host. Their addresses are abstract: they are in no file system and end
// with the socket.
//
// Threads: as the kernel's sockets. Nothing here blocks or raises a signal.
// Errors:  Unavailable unless said otherwise. ResourceExhausted if a limit of
//          this process or its user is reached (open files, files in flight):
//          the peer has not failed. EWOULDBLOCK is no error.

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
// nullopt if the listener's queue is full: dial again later. NotFound if nobody
// listens. Any user of the
// machine can fill it for a moment.
absl::StatusOr<std::optional<FileDescriptor>> DialLocally(
    const std::string& name);
// nullopt if no connection is pending.
absl::StatusOr<std::optional<FileDescriptor>> Accept(int listener);

// Whether the process at the other end runs as the same user as this one.
bool IsSameUser(int socket);

absl::Status SendBytes(int socket, const void* data, size_t bytes,
                       const std::vector<int>& files);

struct SocketMessage {
  size_t bytes = 0;  // 0: the other end is closed
  std::vector<FileDescriptor> files;
};
// nullopt if no message is queued. A message longer than `bytes` is cut off;
// SocketMessage::bytes is its whole length.
absl::StatusOr<std::optional<SocketMessage>> ReceiveBytes(int socket,
                                                          void* data,
                                                          size_t bytes);

template <typename T>
absl::Status SendMessage(int socket, const T& message,
                         const std::vector<int>& files = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  return SendBytes(socket, &message, sizeof message, files);
}

// A pidfd of this process: it becomes readable when the process has ended.
absl::StatusOr<FileDescriptor> OpenThisProcess();

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_LOCAL_SOCKET_H_

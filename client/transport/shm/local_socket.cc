#include "client/transport/shm/local_socket.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/open_files.h"

namespace lockstep::transport {
namespace {

constexpr size_t kFilesMax = 4;  // in one message

absl::Status Failed(const char* call) {
  const int error = errno;
  const std::string published = absl::StrCat(call, ": ", std::strerror(error));
  return IsOutOfFiles(error) ? OutOfFiles(published)
                             : absl::UnavailableError(published);
}

absl::StatusOr<FileDescriptor> NewSocket() {
  FileDescriptor fd(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket");
  return fd;
}

// Calls `call` with the abstract address `name`.
template <typename F>
int WithAddress(const std::string& name, F call) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return call(
      reinterpret_cast<const sockaddr*>(&address),
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length));
}

}  // namespace

absl::StatusOr<FileDescriptor> ListenLocally(const std::string& name) {
  absl::StatusOr<FileDescriptor> fd = NewSocket();
  if (!fd.ok()) return fd;
  const int bound = WithAddress(name, [&](const sockaddr* at, socklen_t size) {
    return bind(fd->get(), at, size);
  });
  if (bound != 0) return Failed("bind");
  if (listen(fd->get(), SOMAXCONN) != 0) return Failed("listen");
  return fd;
}

absl::StatusOr<std::optional<FileDescriptor>> DialLocally(
    const std::string& name) {
  absl::StatusOr<FileDescriptor> fd = NewSocket();
  if (!fd.ok()) return std::move(fd).status();
  const int dialed = WithAddress(name, [&](const sockaddr* at, socklen_t size) {
    return connect(fd->get(), at, size);
  });
  if (dialed != 0 && errno == EAGAIN) return std::nullopt;
  if (dialed != 0 && errno == ECONNREFUSED) {
    return absl::NotFoundError("connect: nothing listens at its local socket");
  }
  if (dialed != 0) return Failed("connect");
  return *std::move(fd);
}

absl::StatusOr<std::optional<FileDescriptor>> Accept(int listener) {
  FileDescriptor fd(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) return std::optional<FileDescriptor>(std::move(fd));
  absl::Status failed = Failed("accept");
  if (absl::IsResourceExhausted(failed)) return failed;
  return std::optional<FileDescriptor>();
}

bool IsSameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

absl::Status SendBytes(int socket, const void* data, size_t bytes,
                       const std::vector<int>& files) {
  iovec part{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kFilesMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? Failed("sendmsg") : absl::OkStatus();
}

absl::StatusOr<std::optional<SocketMessage>> ReceiveBytes(int socket,
                                                          void* data,
                                                          size_t bytes) {
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kFilesMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got =
        recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return std::optional<SocketMessage>();
  }
  if (got < 0) return Failed("recvmsg");
  SocketMessage received{.bytes = static_cast<size_t>(got)};
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr;
       at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(at) + i * sizeof file, sizeof file);
      received.files.emplace_back(file);
    }
  }
  // A file for which this process had no descriptor left is lost. (With
  // kFilesMax files received, the peer sent more than the protocol allows.)
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (cut && received.files.size() < kFilesMax) {
    errno = EMFILE;
    return Failed("recvmsg");
  }
  return std::optional<SocketMessage>(std::move(received));
}

// Older C libraries have no pidfd_open.
absl::StatusOr<FileDescriptor> OpenThisProcess() {
  FileDescriptor process(
      static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!process.valid()) return Failed("pidfd_open");
  return process;
}

}  // namespace lockstep::transport

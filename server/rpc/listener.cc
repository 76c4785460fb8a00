#include "server/rpc/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/open_files.h"
#include "base/thread.h"

namespace lockstep::rpc {
namespace {

// More than any kernel allows: net.core.somaxconn is the effective limit.
constexpr int kBacklog = 65'535;
constexpr int kRetryMilliseconds = 100;
// Attempts to find a port that is free on all addresses of a host.
constexpr int kPortTries = 16;

FileDescriptor Spare() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

absl::Status CannotListen(const Address& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", ToString(address), ": ", why));
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error == EAI_SYSTEM && IsOutOfFiles(errno)) {
    return OutOfFiles(absl::StrCat("getaddrinfo: ", std::strerror(errno)));
  }
  if (error != 0) return CannotListen(address, gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

// An address of either family; both store the port at the same offset.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  in_port_t& port() { return reinterpret_cast<sockaddr_in&>(storage).sin_port; }
};

SocketAddress From(const addrinfo& found) {
  SocketAddress address{.size = found.ai_addrlen};
  std::memcpy(&address.storage, found.ai_addr, found.ai_addrlen);
  return address;
}

SocketAddress AnyOfBothFamilies(int port) {
  SocketAddress address{.size = sizeof(sockaddr_in6)};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool IsUnspecified(SocketAddress address) {
  if (address.storage.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in&>(address.storage).sin_addr.s_addr ==
           INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(
      &reinterpret_cast<sockaddr_in6&>(address.storage).sin6_addr);
}

// Invalid on failure, with errno set.
FileDescriptor ListenOn(SocketAddress address, bool both_families = false) {
  FileDescriptor listening(socket(address.storage.ss_family,
                                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                  0));
  if (!listening.valid()) return {};
  const auto set = [&](int level, int option, int value) {
    return setsockopt(listening.get(), level, option, &value, sizeof value);
  };
  // No SO_REUSEPORT: two daemons on one port would each get some of the
  // workers.
  // workers.
  if (set(SOL_SOCKET, SO_REUSEADDR, 1) != 0) return {};
  if (address.storage.ss_family == AF_INET6 &&
      set(IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1) != 0) {
    return {};
  }
  if (bind(listening.get(), address.get(), address.size) != 0) return {};
  if (listen(listening.get(), kBacklog) != 0) return {};
  return listening;
}

in_port_t PortOf(const FileDescriptor& listening) {
  SocketAddress address{.size = sizeof(sockaddr_storage)};
  Check(getsockname(listening.get(), address.get(), &address.size) == 0,
        "a listening socket has an address");
  return address.port();
}

// Skips addresses of the host name that this machine lacks, unless it lacks
// all. Empty on failure, with errno set.
std::vector<FileDescriptor> ListenOnAll(const addrinfo* addresses) {
  std::vector<FileDescriptor> listening;
  int lacking = 0;
  for (const addrinfo* found = addresses; found != nullptr;
       found = found->ai_next) {
    SocketAddress address = From(*found);
    // If any free port was requested, the first address determines it.
    if (!listening.empty()) address.port() = PortOf(listening.front());
    FileDescriptor one = ListenOn(address);
    if (one.valid()) {
      listening.push_back(std::move(one));
    } else if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
      lacking = errno;
    } else {
      return {};
    }
  }
  errno = lacking;
  return listening;
}

std::vector<FileDescriptor> ListenOnHost(const addrinfo* addresses, int port) {
  if (IsUnspecified(From(*addresses))) {
    FileDescriptor both = ListenOn(AnyOfBothFamilies(port), true);
    std::vector<FileDescriptor> listening;
    if (both.valid()) {
      listening.push_back(std::move(both));
      return listening;
    }
    if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) return {};
  }
  for (int tries = 1;; ++tries) {
    std::vector<FileDescriptor> listening = ListenOnAll(addresses);
    const bool taken = listening.empty() && errno == EADDRINUSE;
    if (!taken || port != 0 || tries == kPortTries) return listening;
  }
}

// Invalid on failure, with errno set.
FileDescriptor AcceptOne(int socket) {
  return FileDescriptor(
      accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

bool PassesByItself(int error) {
  switch (error) {
    case EINTR:
    // Errors of one connection, which is closed.
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENONET: return true;
    default: return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(
    const Address& address) {
  auto addresses = Resolve(address);
  if (!addresses.ok()) return addresses.status();
  std::vector<FileDescriptor> listening =
      ListenOnHost(addresses->get(), address.port);
  if (listening.empty()) {
    const std::string why = std::strerror(errno);
    return IsOutOfFiles(errno) ? OutOfFiles(why) : CannotListen(address, why);
  }
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC));
  FileDescriptor spare = Spare();
  if (!stop.valid() || !spare.valid()) return OutOfFiles("eventfd");
  const int port = ntohs(PortOf(listening.front()));
  return absl::WrapUnique(new Listener({address.host, port},
                                       std::move(listening), std::move(stop),
                                       std::move(spare)));
}

Listener::Listener(Address address, std::vector<FileDescriptor> sockets,
                   FileDescriptor stop, FileDescriptor spare)
    : address_(std::move(address)),
      sockets_(std::move(sockets)),
      stop_(std::move(stop)),
      spare_(std::move(spare)) {}

Listener::~Listener() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Listener::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  thread_ = StartThread("ls-accept", [this] { Loop(); });
}

void Listener::Loop() {
  std::vector<pollfd> waiting{{.fd = stop_.get(), .events = POLLIN}};
  for (const FileDescriptor& socket : sockets_) {
    waiting.push_back({.fd = socket.get(), .events = POLLIN});
  }
  size_t of_these = waiting.size();
  while (true) {
    // After an error, polls only the stop event for a while.
    const bool all = of_these == waiting.size();
    const int timeout = all ? CheckMilliseconds() : kRetryMilliseconds;
    if (poll(waiting.data(), of_these, timeout) < 0) continue;  // EINTR
    if (waiting[0].revents != 0) return;
    EndOverfullConnections();
    of_these = waiting.size();
    for (const FileDescriptor& socket : sockets_) {
      if (!AcceptAll(socket.get())) of_these = 1;
    }
  }
}

int Listener::CheckMilliseconds() {
  RpcLimits* const limits = callbacks_.limits;
  if (limits == nullptr || !limits->HasConnections()) return -1;
  return static_cast<int>(absl::ToInt64Milliseconds(RpcLimits::kCheckInterval));
}

void Listener::EndOverfullConnections() {
  if (callbacks_.limits == nullptr) return;
  for (const std::string& line :
       callbacks_.limits->EndOverfullConnections(clock_.Now())) {
    Warn(line);
  }
}

bool Listener::AcceptAll(int socket) {
  while (true) {
    FileDescriptor connection = AcceptOne(socket);
    int error = connection.valid() ? 0 : errno;
    // The kernel allocates a descriptor first: perhaps no connection waits.
    if (IsOutOfFiles(error)) error = RefuseOne(socket, error);
    if (error == EAGAIN) return true;
    if (connection.valid()) {
      Keep(std::move(connection));
    } else if (error != 0 && !PassesByItself(error)) {
      Warn(limit_.NotAccepted(error, clock_.Now()));
      return false;
    }
  }
}

void Listener::Keep(FileDescriptor connection) {
  RpcLimits* const limits = callbacks_.limits;
  if (limits != nullptr &&
      !limits->AdmitConnection(connection.get(), clock_.Now())) {
    return Warn(limit_.Full(limits->values().connections, clock_.Now()));
  }
  const auto decision =
      limit_.Accepted(connection.get(), OpenFilesLimit(), clock_.Now());
  Warn(decision.log);
  if (!decision.keep) return CountRefused();
  callbacks_.on_connection(std::move(connection));
}

int Listener::RefuseOne(int socket, int why) {
  spare_ = FileDescriptor();
  int error = 0;
  {
    const FileDescriptor refused = AcceptOne(socket);
    if (!refused.valid()) error = errno;
  }
  spare_ = Spare();
  if (error == 0) {
    CountRefused();
    Warn(limit_.NotAccepted(why, clock_.Now()));
  }
  return error;
}

void Listener::CountRefused() {
  if (callbacks_.limits != nullptr) callbacks_.limits->CountRefusedConnection();
}

void Listener::Warn(const std::string& line) const {
  if (!line.empty() && callbacks_.on_warning) callbacks_.on_warning(line);
}

}  // namespace lockstep::rpc

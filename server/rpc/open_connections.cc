#include "server/rpc/open_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/file_descriptor.h"
#include "server/access/address.h"

namespace lockstep::rpc {
namespace {

std::optional<ino_t> SocketOf(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) return {};
  return status.st_ino;
}

// "127.0.0.1:40123" or "[::1]:40123"; empty for what is no TCP connection.
std::string PeerOf(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return "";
  }
  char host[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return ToString({host, ntohs(v4.sin_port)});
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], host, sizeof host);
  } else {
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
  }
  return ToString({host, ntohs(v6.sin6_port)});
}

// The C library's tcp_info ends before what the kernel added in Linux 4.1.
struct TcpInfo {
  tcp_info known;
  uint64_t pacing_rate;
  uint64_t max_pacing_rate;
  uint64_t bytes_acked;
  uint64_t bytes_received;
};
static_assert(offsetof(TcpInfo, bytes_received) == 128);

// 0 for what is no TCP connection.
int64_t ReceivedBytes(int descriptor) {
  TcpInfo info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return 0;
  }
  return static_cast<int64_t>(info.bytes_received);
}

// "[fe80::1]:40123" of "[fe80::1%eth0]:40123".
std::string WithoutScope(std::string address) {
  const size_t scope = address.find('%');
  if (scope != std::string::npos) {
    address.erase(scope, address.find(']') - scope);
  }
  return address;
}

// What was given is at most what was received.
int64_t Limited(GivenBytes& given, int64_t received) {
  int64_t now = given.load();
  while (now > received && !given.compare_exchange_weak(now, received)) {
  }
  return std::min(now, received);
}

}  // namespace

void OpenConnections::Add(int descriptor) {
  const auto inode = SocketOf(descriptor);
  if (!inode) return;
  const std::string peer = PeerOf(descriptor);
  const auto former = connections_.find(descriptor);
  if (former != connections_.end()) ForgetPeer(former->second.peer, descriptor);
  descriptors_[peer] = descriptor;
  connections_[descriptor] = {
      .inode = *inode, .peer = peer, .given = std::make_shared<GivenBytes>(0)};
}

size_t OpenConnections::Count() {
  std::erase_if(connections_, [this](const auto& entry) {
    const auto& [descriptor, connection] = entry;
    if (SocketOf(descriptor) == connection.inode) return false;
    ForgetPeer(connection.peer, descriptor);
    return true;
  });
  return connections_.size();
}

std::shared_ptr<GivenBytes> OpenConnections::GivenBytesOf(
    absl::string_view peer) const {
  const std::string address = AddressOfGrpcPeer(peer);
  // The scope of a link-local address is not part of the kernel's text.
  const auto named = descriptors_.find(WithoutScope(address));
  if (named == descriptors_.end()) return nullptr;
  return connections_.at(named->second).given;
}

std::vector<OpenConnections::Waiting> OpenConnections::WaitingBytes(
    int64_t allowance) {
  Count();
  std::vector<Waiting> waiting;
  for (const auto& [descriptor, connection] : connections_) {
    *connection.given += allowance;
    const int64_t received = ReceivedBytes(descriptor);
    waiting.push_back(
        {.descriptor = descriptor,
         .peer = connection.peer,
         .bytes = received - Limited(*connection.given, received)});
  }
  std::sort(
      waiting.begin(), waiting.end(),
      [](const Waiting& a, const Waiting& b) { return a.bytes > b.bytes; });
  return waiting;
}

void OpenConnections::End(const Waiting& connection) {
  const auto found = connections_.find(connection.descriptor);
  if (found == connections_.end()) return;
  // gRPC may close the descriptor at any moment, and then the number is
  // another's; of this copy it cannot.
  const FileDescriptor own(dup(connection.descriptor));
  if (SocketOf(own.get()) == found->second.inode) {
    shutdown(own.get(), SHUT_RDWR);
  }
  ForgetPeer(found->second.peer, found->first);
  connections_.erase(found);
}

// Unless another connection has this peer by now.
void OpenConnections::ForgetPeer(const std::string& peer, int descriptor) {
  const auto named = descriptors_.find(peer);
  if (named != descriptors_.end() && named->second == descriptor) {
    descriptors_.erase(named);
  }
}

}  // namespace lockstep::rpc

// A TCP connection whose client does not use gRPC.

#ifndef LOCKSTEP_TESTS_SERVER_RPC_RAW_CONNECTION_H_
#define LOCKSTEP_TESTS_SERVER_RPC_RAW_CONNECTION_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "gtest/gtest.h"
#include "server/access/address.h"

namespace lockstep::rpc {

// `address` is numeric IPv4.
inline FileDescriptor ConnectTo(const Address& address) {
  sockaddr_in to{.sin_family = AF_INET,
                 .sin_port = htons(static_cast<uint16_t>(address.port))};
  inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(
      connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0)
      << std::strerror(errno);
  return connection;
}

// Reads until the peer has closed the connection; false if it has not within a
// minute.
inline bool IsClosedByPeer(const FileDescriptor& connection) {
  char bytes[4096];
  pollfd readable{.fd = connection.get(), .events = POLLIN};
  while (poll(&readable, 1, 60'000) == 1) {
    if (recv(connection.get(), bytes, sizeof bytes, 0) <= 0) return true;
  }
  return false;
}

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_TESTS_SERVER_RPC_RAW_CONNECTION_H_

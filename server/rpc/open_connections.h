// The accepted connections that are still open, and how much each has sent that
// no call was given yet.
//
// gRPC owns a connection and does not report its end. But no two sockets have
// one inode number, so a connection is open as long as its descriptor has the
// inode that it was accepted with.
//
// gRPC also holds an incomplete message in memory, whatever its size. The
// kernel counts what a connection has received, and calls count what they were
// given: the difference is what waits. Frames, headers and TLS records are not
// known to calls, so a flat allowance is added for them; it cannot be saved up,
// because what was given never counts as more than what was received.
//
// Threads: one at a time; GivenBytes from any.

#ifndef LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_
#define LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::rpc {

// Bytes of one connection that its calls were given, with the allowance.
using GivenBytes = std::atomic<int64_t>;

class OpenConnections {
 public:
  // What one connection has sent that waits.
  struct Waiting {
    int descriptor = -1;
    std::string peer;  // "127.0.0.1:40123"
    int64_t bytes = 0;
  };

  void Add(int descriptor);

  // Forgets the connections that were closed, at one system call for each that
  // is known, and returns how many are left.
  size_t Count();

  // Those that may be open: at least as many as are.
  size_t known() const { return connections_.size(); }

  // The bytes of the connection whose other end has this address, as gRPC
  // writes it ("ipv4:127.0.0.1:40123"). Null: there is none.
  std::shared_ptr<GivenBytes> GivenBytesOf(absl::string_view peer) const;

  // For each open connection, the most first, after `allowance` bytes more were
  // given. Forgets those that were closed.
  std::vector<Waiting> WaitingBytes(int64_t allowance);

  // Ends the connection, if it is still open, and forgets it. gRPC then closes
  // it, and frees what it holds.
  void End(const Waiting& connection);

 private:
  struct Connection {
    ino_t inode = 0;
    std::string peer;
    std::shared_ptr<GivenBytes> given;
  };

  void ForgetPeer(const std::string& peer, int descriptor);

  std::map<int, Connection> connections_;   // by descriptor
  std::map<std::string, int> descriptors_;  // by peer, of connections_
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_

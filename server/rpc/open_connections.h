// The accepted connections that are still open.
//
// gRPC owns a connection and does not report its end. But no two sockets have
// one inode number, so a connection is open as long as its descriptor has the
// inode that it was accepted with.
//
// Threads: one at a time.

#ifndef LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_
#define LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>

namespace lockstep::rpc {

class OpenConnections {
 public:
  void Add(int descriptor);

  // Forgets the connections that were closed, at one system call for each that
  // is known, and returns how many are left.
  size_t Count();

  // Those that may be open: at least as many as are.
  size_t known() const { return inodes_.size(); }

 private:
  std::map<int, ino_t> inodes_;  // by descriptor
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_OPEN_CONNECTIONS_H_

// Listens on an address and hands on each connection that can be kept.
//
// gRPC's own listener ends for good at the first error of accept(), without a
// word: a coordinator that had run out of descriptors once, for a moment, would
// never be reached again. This one goes on after every error, closes at once
// what cannot be kept (connection_limit.h), and says so in the log.
//
// Threads: one of its own, `ls-accept`, which calls both callbacks; it waits
// for connections and for nothing else. The methods from one thread.

#ifndef LOCKSTEP_SERVER_RPC_LISTENER_H_
#define LOCKSTEP_SERVER_RPC_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/rpc/address.h"
#include "server/rpc/connection_limit.h"

namespace lockstep::rpc {

class Listener {
 public:
  struct Callbacks {
    // Takes a connected socket, which does not block.
    std::function<void(FileDescriptor)> on_connection;
    // A line for the log. May be empty.
    std::function<void(const std::string&)> on_warning;
  };

  // Binds every address that the host name stands for, all to one port. An
  // unspecified address ("0.0.0.0", "[::]") is bound for IPv4 and IPv6.
  // Connections wait in the kernel until Start. Unavailable names the address
  // and the error; ResourceExhausted: no descriptors.
  static absl::StatusOr<std::unique_ptr<Listener>> Bind(const Address& address);
  // Closes the sockets: who connects from here on is refused by the kernel.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // With the port that was bound.
  const Address& address() const { return address_; }

  // Once.
  void Start(Callbacks callbacks);

 private:
  Listener(Address address, std::vector<FileDescriptor> sockets,
           FileDescriptor stop, FileDescriptor spare);

  void Loop();
  // Until none waits. False after an error that will not pass at once.
  bool AcceptAll(int socket);
  void Keep(FileDescriptor connection);
  // No descriptor was free, `why` is the error: closes the first connection
  // that waits, with the descriptor kept for that. 0, or an errno: EAGAIN if
  // none waits, `why` if somebody else has taken the descriptor meanwhile.
  int RefuseOne(int socket, int why);
  void Warn(const std::string& line) const;

  const Address address_;
  std::vector<FileDescriptor> sockets_;
  const FileDescriptor stop_;  // an eventfd
  FileDescriptor spare_;
  SystemClock clock_;
  ConnectionLimit limit_;
  Callbacks callbacks_;
  std::thread thread_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_LISTENER_H_

// Listens on an address and passes on each connection that can be kept.
//
// gRPC's own listener stops silently at the first error of accept(): a
// coordinator that once ran out of descriptors would stay unreachable. This
// listener continues after every error, closes connections that cannot be kept
// (connection_limit.h), and logs that.
//
// Threads: its own, `ls-accept`, which calls all callbacks and blocks only in
// poll(). The methods from one thread.

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
#include "server/access/address.h"
#include "server/rpc/connection_limit.h"
#include "server/rpc/limits.h"

namespace lockstep::rpc {

class Listener {
 public:
  struct Callbacks {
    // Receives a connected, non-blocking socket.
    std::function<void(FileDescriptor)> on_connection;
    // A line for the log. May be empty.
    std::function<void(const std::string&)> on_warning;
    // Admits connections, counts those that are refused, and ends those that
    // send too much. May be null.
    RpcLimits* limits = nullptr;
  };

  // Binds every address of the host name, all to one port. An unspecified
  // address ("0.0.0.0", "[::]") is bound for IPv4 and IPv6. Connections wait in
  // the kernel until Start. Unavailable names the address and the error;
  // ResourceExhausted: no descriptors.
  static absl::StatusOr<std::unique_ptr<Listener>> Bind(const Address& address);
  // Closes the sockets: the kernel then refuses connections.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // With the bound port.
  const Address& address() const { return address_; }

  // Once.
  void Start(Callbacks callbacks);

 private:
  Listener(Address address, std::vector<FileDescriptor> sockets,
           FileDescriptor stop, FileDescriptor spare);

  void Loop();
  // How long to wait for a connection before the open ones are looked at again.
  int CheckMilliseconds();
  void EndOverfullConnections();
  // Accepts until no connection waits. False after an error that persists.
  bool AcceptAll(int socket);
  void Keep(FileDescriptor connection);
  // No descriptor was free (error `why`): closes the first waiting connection,
  // using the spare descriptor. Returns 0 or an errno: EAGAIN if no connection
  // waits, `why` if another thread has taken the descriptor.
  int RefuseOne(int socket, int why);
  void CountRefused();
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

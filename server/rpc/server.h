// The gRPC server: listeners, services, health, reflection, and its limits.
//
// A connection on which no call is made is closed: a stranger does not hold a
// descriptor for ever. Streams of workers are calls, however long they are
// silent. When descriptors run short, new connections are refused and those
// that are there go on (listener.h).
//
// Threads: gRPC's own, whose number does not grow with workers, and one
// `ls-accept` for each listener. Start, Shutdown and the destructor from one
// thread, the rest from any.

#ifndef LOCKSTEP_SERVER_RPC_SERVER_H_
#define LOCKSTEP_SERVER_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plan/words/ids.h"
#include "server/rpc/address.h"
#include "server/rpc/token_gate.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::rpc {

inline constexpr int kMessageBytesMax = 4 << 20;

struct ServerOptions {
  Address listen{"127.0.0.1", 7070};
  // A second listener with nothing but the health service, for probes that
  // speak no TLS.
  std::optional<Address> health;
  // Plaintext may leave this machine.
  bool insecure = false;
  TokenGate gate;
  LeaderTerm term{1};
  // A connection is closed that has not begun to speak HTTP/2 by then, or that
  // has had no call for so long.
  absl::Duration handshake_timeout = absl::Seconds(10);
  absl::Duration idle_timeout = absl::Minutes(1);
  // Takes lines for the log: that connections are refused, and that they are
  // accepted again. Called on any thread. May be empty.
  std::function<void(const std::string&)> on_warning;
};

class Server {
 public:
  // Serves from here on. FailedPrecondition: an address that others can reach,
  // without `insecure`. Unavailable: an address that cannot be bound; it is
  // named. ResourceExhausted: too few descriptors. `loop` must outlive the
  // server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, runtime::CoordinatorLoop* loop);
  ~Server();

  // With the ports that were bound.
  const Address& address() const;
  const std::optional<Address>& health_address() const;

  // The health services say so, all services.
  void SetServing(bool serving);

  // Waits at most `patience` for the streams there are to end, then ends what
  // is left, and takes no new calls. The loop must still run, and be draining.
  void Shutdown(absl::Duration patience);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_SERVER_H_

// A listener that serves only the health service, in plaintext: for probes.
//
//   service                           who asks           what it is told
//   "", lockstep.v1.Coordinator, ...  readiness          SetServing
//   alive                             liveness, startup  SERVING
//
// A coordinator that waits until it leads is alive, and does not serve.
//
// Threads: gRPC's own, and one `ls-accept`. Start, Shutdown and the destructor
//          from one thread, SetServing from any.

#ifndef LOCKSTEP_SERVER_RPC_HEALTH_LISTENER_H_
#define LOCKSTEP_SERVER_RPC_HEALTH_LISTENER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/address.h"
#include "server/rpc/server.h"

namespace lockstep::rpc {

class HealthListener {
 public:
  // At `address`, with the limits and times of `options`. Does not serve yet.
  // Unavailable: an address that cannot be bound; the message names it.
  static absl::StatusOr<std::unique_ptr<HealthListener>> Start(
      const Address& address, const ServerOptions& options);
  ~HealthListener();

  const Address& address() const;  // with the bound port
  void SetServing(bool serving);
  // Watchers receive the newest status before their calls are cancelled.
  void Shutdown(absl::Duration timeout);

 private:
  struct Parts;
  explicit HealthListener(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_HEALTH_LISTENER_H_

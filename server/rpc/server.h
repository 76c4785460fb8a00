// The gRPC server: its listener, services, health, reflection, and its limits.
//
// A connection without calls is closed, so that an unknown peer cannot keep a
// descriptor for long. Workers' streams are calls, however long they are
// silent. When descriptors run short, new connections are refused and existing
// ones continue (listener.h).
//
// Threads: gRPC's own, whose number does not grow with workers, one
// `ls-accept`, with files of tokens `ls-tokens`, and with certificates
// `ls-certs`. Start, Shutdown and the destructor from one thread, the rest from
// any.

#ifndef LOCKSTEP_SERVER_RPC_SERVER_H_
#define LOCKSTEP_SERVER_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protocol/ids.h"
#include "protocol/limit_use.h"
#include "server/access/address.h"
#include "server/rpc/limits.h"
#include "server/rpc/token_gate.h"
#include "server/runtime/coordinator_loop.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace lockstep::rpc {

struct ServerOptions {
  Address listen{"127.0.0.1", 7070};
  // Certificates (base/tls/tls_folder.h), without which the server speaks
  // plaintext.
  std::string tls_folder;
  absl::Duration tls_interval = absl::Seconds(2);  // they are read again
  // Made of that folder before, so that what was read then stays in use
  // (MakeServerCredentials); null: the server reads the folder.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Allows plaintext beyond this machine.
  bool insecure = false;
  TokenGate gate;
  // Where the gate's tokens are from; their files are read again in each
  // interval (live_tokens.h). Empty: the tokens never change.
  TokenFiles token_files;
  absl::Duration token_interval = absl::Seconds(2);
  LeaderTerm term{1};
  std::string version;  // of the daemon, for operators
  RpcLimitValues limits;
  // A connection is closed if it has not begun HTTP/2 by handshake_timeout, or
  // has had no call for idle_timeout.
  absl::Duration handshake_timeout = absl::Seconds(10);
  absl::Duration idle_timeout = absl::Minutes(1);
  // Receives log lines: that connections are refused, and accepted again; that
  // tokens or certificates have changed, or their files cannot be used.
  // Called on any thread. May be empty.
  std::function<void(const std::string&)> on_warning;
};

// An empty folder: plaintext. Reads it again in each interval of `options`.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ReadCredentials(
    const std::string& tls_folder, const ServerOptions& options);

class Server {
 public:
  // Starts serving. Errors: those of MayListen and of ReadTlsFolder.
  // Unavailable: an address that cannot be bound; the message names it.
  // ResourceExhausted: too few descriptors. `loop` must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, runtime::CoordinatorLoop* loop);
  ~Server();

  const Address& address() const;  // with the bound port

  // The limits that the loop does not know. Any thread.
  std::vector<LimitUse> LimitUses() const;

  // Sets the status in the health service, for all services.
  void SetServing(bool serving);

  // Waits at most `patience` for open streams to end, then cancels the rest and
  // accepts no new calls. The loop must still run, and be draining.
  void Shutdown(absl::Duration timeout);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_SERVER_H_

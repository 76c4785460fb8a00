// A gRPC server behind a Listener, with the limits that all servers here have:
// idle connections end, compressed messages are refused, dead peers are
// noticed.
//
// Threads: gRPC's own, and one `ls-accept`. Listen, Shutdown and the destructor
//          from one thread, SetServing from any.

#ifndef LOCKSTEP_SERVER_RPC_LISTENING_SERVER_H_
#define LOCKSTEP_SERVER_RPC_LISTENING_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "server/access/address.h"
#include "server/rpc/limits.h"
#include "server/rpc/listener.h"
#include "server/rpc/server.h"

namespace lockstep::rpc {

// The service of the health check that is always told SERVING.
inline constexpr char kAliveService[] = "alive";

// A peer that acknowledges nothing for this long is considered dead.
inline constexpr int kSilenceMilliseconds = 10'000;

struct ListeningOptions {
  Address address;
  std::string tls_folder;  // empty: plaintext
  std::shared_ptr<grpc::ServerCredentials> credentials = {};  // instead of it
  bool has_reflection = false;
};

class ListeningServer {
 public:
  // Starts the server of `builder`, which has its services. Does not serve yet,
  // as its health service says. `limits` outlives the result. Errors: those of
  // MakeServerCredentials and of Listener::Bind.
  static absl::StatusOr<std::unique_ptr<ListeningServer>> Listen(
      const ListeningOptions& listening, const ServerOptions& options,
      RpcLimits* limits, grpc::ServerBuilder* builder);

  const Address& address() const { return listener_->address(); }
  void SetServing(bool serving);
  // Accepts nothing new, and cancels calls that are open after `timeout`.
  void Shutdown(absl::Duration timeout);

 private:
  ListeningServer() = default;
  void HandOver(FileDescriptor connection);

  std::shared_ptr<grpc::ServerCredentials> credentials_;  // destroyed last
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // destroyed first: it calls HandOver
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_LISTENING_SERVER_H_

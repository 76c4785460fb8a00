#include "server/rpc/health_listener.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "proto/grpc_process.h"
#include "server/rpc/listening_server.h"

namespace lockstep::rpc {

struct HealthListener::Parts {
  RpcLimits limits;
  grpc::CallbackGenericService nothing_else;  // a server needs a service
  Address address;
  std::unique_ptr<ListeningServer> server;
};

absl::StatusOr<std::unique_ptr<HealthListener>> HealthListener::Start(
    const Address& address, const ServerOptions& options) {
  auto parts = absl::WrapUnique(new Parts{.limits = RpcLimits(options.limits)});
  proto::StartGrpc();
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&parts->nothing_else);
  auto server = ListeningServer::Listen({.address = address}, options,
                                        &parts->limits, &builder);
  if (!server.ok()) return server.status();
  parts->server = *std::move(server);
  parts->address = parts->server->address();
  return absl::WrapUnique(new HealthListener(std::move(parts)));
}

HealthListener::HealthListener(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

HealthListener::~HealthListener() { Shutdown(absl::ZeroDuration()); }

const Address& HealthListener::address() const { return parts_->address; }

void HealthListener::SetServing(bool serving) {
  parts_->server->SetServing(serving);
}

void HealthListener::Shutdown(absl::Duration timeout) {
  parts_->server->Shutdown(std::min(timeout, absl::Milliseconds(200)));
}

}  // namespace lockstep::rpc

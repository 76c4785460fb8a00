#include "server/rpc/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/grpc_process.h"
#include "server/access/may_listen.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/coordinator_service.h"
#include "server/rpc/listening_server.h"
#include "server/rpc/live_tokens.h"
#include "server/rpc/service_context.h"

namespace lockstep::rpc {
namespace {

// Permits keep-alive pings of workers at any rate; closes connections to peers
// that do not answer the server's.
void SetKeepalive(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              kSilenceMilliseconds);
}

}  // namespace

struct Server::Parts {
  LiveTokens tokens;
  RpcLimits limits;
  OpenCalls calls;
  ServiceContext context;
  CoordinatorService coordinator{&context};
  AdminService admin{&context};
  Address address;
  std::unique_ptr<ListeningServer> server;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, runtime::CoordinatorLoop* loop) {
  const absl::Status may =
      MayListen(options.listen, options.tls_folder, options.insecure);
  if (!may.ok()) return may;
  auto parts = absl::WrapUnique(
      new Parts{.tokens = LiveTokens({.gate = options.gate,
                                      .files = options.token_files,
                                      .interval = options.token_interval,
                                      .log = options.on_warning}),
                .limits = RpcLimits(options.limits),
                .context = {loop, nullptr, nullptr, nullptr, options.term,
                            options.version},
                .address = options.listen});
  parts->context.calls = &parts->calls;
  parts->context.tokens = &parts->tokens;
  parts->context.limits = &parts->limits;

  proto::StartGrpc();
  grpc::ServerBuilder builder;
  builder.RegisterService(&parts->coordinator);
  builder.RegisterService(&parts->admin);
  SetKeepalive(&builder);
  auto server = ListeningServer::Listen({.address = parts->address,
                                         .tls_folder = options.tls_folder,
                                         .credentials = options.credentials,
                                         .has_reflection = true},
                                        options, &parts->limits, &builder);
  if (!server.ok()) return server.status();
  parts->server = *std::move(server);
  parts->address = parts->server->address();

  auto started = absl::WrapUnique(new Server(std::move(parts)));
  started->SetServing(true);
  return started;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

const Address& Server::address() const { return parts_->address; }

std::vector<LimitUse> Server::LimitUses() const {
  return parts_->limits.Uses();
}

void Server::SetServing(bool serving) { parts_->server->SetServing(serving); }

void Server::Shutdown(absl::Duration timeout) {
  parts_->calls.AwaitNone(timeout);
  // Health watchers receive the new status before their calls are cancelled.
  parts_->server->Shutdown(std::min(timeout, absl::Milliseconds(200)));
}

}  // namespace lockstep::rpc

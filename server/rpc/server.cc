#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "proto/grpc_credentials.h"
#include "proto/grpc_process.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/coordinator_service.h"
#include "server/rpc/listener.h"
#include "server/rpc/live_tokens.h"
#include "server/rpc/service_context.h"

namespace lockstep::rpc {
namespace {

// A peer that acknowledges nothing for this long is considered dead.
constexpr int kSilenceMilliseconds = 10'000;

// gRPC keeps plugins in a global list; this selects reflection per server.
class Reflection final : public grpc::ServerBuilderOption {
 public:
  explicit Reflection(bool offered) : offered_(offered) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
    if (!offered_) return;
    plugins->push_back(
        std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
  }

 private:
  const bool offered_;
};

absl::Status MayListen(const ServerOptions& options) {
  const bool safe = options.insecure || !options.tls_folder.empty() ||
                    IsLoopback(options.listen);
  if (safe) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      ToString(options.listen),
      " can be reached from other machines, and there are no certificates for "
      "TLS. Make some and use them:\n"
      "  lockstepctl certs init certs --host NAME\n"
      "  lockstepd --tls certs/coordinator ...\n"
      "where NAME is how others reach this host. Or listen on 127.0.0.1, or "
      "say --insecure if the network is trusted"));
}

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

// Far more than a worker or an operator opens on one connection.
constexpr int kStreamsPerConnection = 1000;

// A small message could become one of any size, before its size is looked at.
void RefuseCompression(grpc::ServerBuilder* builder) {
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// Closes connections that have had no call for a while.
void SetIdleLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const auto milliseconds = [](absl::Duration duration) {
    return static_cast<int>(absl::ToInt64Milliseconds(duration));
  };
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              milliseconds(options.handshake_timeout));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                              milliseconds(options.idle_timeout));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              kStreamsPerConnection);
}

// A gRPC server behind a Listener.
struct Listening {
  std::shared_ptr<grpc::ServerCredentials> credentials;  // destroyed last
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Listener> listener;  // destroyed first: it calls HandOver

  // Sets up a connection as gRPC's own listener does.
  void HandOver(FileDescriptor connection) {
    const int on = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int silence = kSilenceMilliseconds;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence,
               sizeof silence);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        parameters;
    parameters.fd = connection.Release();
    acceptor->HandleNewConnection(&parameters);
  }

  // Accepts nothing new, and cancels open calls at `deadline`.
  void Shutdown(std::chrono::system_clock::time_point deadline) {
    listener.reset();
    if (server != nullptr) server->Shutdown(deadline);
  }
};

absl::StatusOr<std::unique_ptr<Listening>> Listen(grpc::ServerBuilder* builder,
                                                  const Address& address,
                                                  const ServerOptions& options,
                                                  const std::string& tls_folder,
                                                  RpcLimits* limits) {
  auto credentials = proto::MakeServerCredentials(
      {.folder = tls_folder,
       .interval = options.tls_interval,
       .log = {.trouble = options.on_warning, .change = options.on_warning}});
  if (!credentials.ok()) return credentials.status();
  auto listener = Listener::Bind(address);
  if (!listener.ok()) return listener.status();
  auto listening = std::make_unique<Listening>();
  listening->credentials = *std::move(credentials);
  listening->listener = *std::move(listener);
  SetIdleLimits(options, builder);
  RefuseCompression(builder);
  builder->SetMaxReceiveMessageSize(limits->GrpcMessageBytes());
  listening->acceptor = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      listening->credentials);
  listening->server = builder->BuildAndStart();
  if (listening->server == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  listening->listener->Start(
      {.on_connection =
           [own = listening.get()](FileDescriptor connection) {
             own->HandOver(std::move(connection));
           },
       .on_warning = options.on_warning,
       .limits = limits});
  return listening;
}

}  // namespace

struct Server::Parts {
  LiveTokens tokens;
  RpcLimits limits;
  OpenCalls calls;
  ServiceContext context;
  CoordinatorService coordinator{&context};
  AdminService admin{&context};
  grpc::CallbackGenericService nothing_else;  // a server needs a service
  Address address;
  std::optional<Address> health_address;
  std::unique_ptr<Listening> health;
  std::unique_ptr<Listening> server;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, runtime::CoordinatorLoop* loop) {
  const absl::Status may = MayListen(options);
  if (!may.ok()) return may;
  proto::StartGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  auto parts = absl::WrapUnique(
      new Parts{.tokens = LiveTokens({.gate = options.gate,
                                      .files = options.token_files,
                                      .interval = options.token_interval,
                                      .log = options.on_warning}),
                .limits = RpcLimits(options.limits),
                .context = {loop, nullptr, nullptr, nullptr, options.term},
                .address = options.listen,
                .health_address = options.health});
  parts->context.calls = &parts->calls;
  parts->context.tokens = &parts->tokens;
  parts->context.limits = &parts->limits;

  grpc::ServerBuilder builder;
  builder.RegisterService(&parts->coordinator);
  builder.RegisterService(&parts->admin);
  builder.SetOption(std::make_unique<Reflection>(true));
  SetKeepalive(&builder);
  auto server = Listen(&builder, parts->address, options, options.tls_folder,
                       &parts->limits);
  if (!server.ok()) return server.status();
  parts->server = *std::move(server);
  parts->address = parts->server->listener->address();

  if (parts->health_address) {
    grpc::ServerBuilder health_builder;
    health_builder.RegisterCallbackGenericService(&parts->nothing_else);
    health_builder.SetOption(std::make_unique<Reflection>(false));
    auto health = Listen(&health_builder, *parts->health_address, options,
                         /*tls_folder=*/"", &parts->limits);
    if (!health.ok()) return health.status();
    parts->health = *std::move(health);
    parts->health_address = parts->health->listener->address();
  }
  auto started = absl::WrapUnique(new Server(std::move(parts)));
  started->SetServing(true);
  return started;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

const Address& Server::address() const { return parts_->address; }

const std::optional<Address>& Server::health_address() const {
  return parts_->health_address;
}

void Server::SetServing(bool serving) {
  for (const auto* server : {&parts_->server, &parts_->health}) {
    if (*server == nullptr) continue;
    auto* health = (*server)->server->GetHealthCheckService();
    health->SetServingStatus(serving);  // the server as a whole
    health->SetServingStatus(v1::Coordinator::service_full_name(), serving);
    health->SetServingStatus(v1::Admin::service_full_name(), serving);
  }
}

void Server::Shutdown(absl::Duration timeout) {
  parts_->calls.AwaitNone(timeout);
  // Health watchers receive the new status before their calls are cancelled.
  const auto soon = absl::ToChronoTime(
      absl::Now() + std::min(timeout, absl::Milliseconds(200)));
  parts_->server->Shutdown(soon);
  if (parts_->health != nullptr) parts_->health->Shutdown(soon);
}

}  // namespace lockstep::rpc

#include "server/rpc/listening_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "lockstep/v1/admin.grpc.pb.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "proto/grpc_credentials.h"

namespace lockstep::rpc {
namespace {

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

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ReadCredentials(
    const std::string& tls_folder, const ServerOptions& options) {
  return proto::MakeServerCredentials(
      {.folder = tls_folder,
       .interval = options.tls_interval,
       .log = {.trouble = options.on_warning, .change = options.on_warning}});
}

absl::StatusOr<std::unique_ptr<ListeningServer>> ListeningServer::Listen(
    const ListeningOptions& listening, const ServerOptions& options,
    RpcLimits* limits, grpc::ServerBuilder* builder) {
  grpc::EnableDefaultHealthCheckService(true);
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      listening.credentials;
  if (listening.credentials == nullptr) {
    credentials = ReadCredentials(listening.tls_folder, options);
  }
  if (!credentials.ok()) return credentials.status();
  auto listener = Listener::Bind(listening.address);
  if (!listener.ok()) return listener.status();
  auto started = absl::WrapUnique(new ListeningServer);
  started->credentials_ = *std::move(credentials);
  started->listener_ = *std::move(listener);
  builder->SetOption(std::make_unique<Reflection>(listening.has_reflection));
  SetIdleLimits(options, builder);
  RefuseCompression(builder);
  builder->SetMaxReceiveMessageSize(limits->GrpcMessageBytes());
  started->acceptor_ = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      started->credentials_);
  started->server_ = builder->BuildAndStart();
  if (started->server_ == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  started->SetServing(false);
  started->listener_->Start(
      {.on_connection =
           [own = started.get()](FileDescriptor connection) {
             own->HandOver(std::move(connection));
           },
       .on_warning = options.on_warning,
       .limits = limits});
  return started;
}

// Sets up a connection as gRPC's own listener does.
void ListeningServer::HandOver(FileDescriptor connection) {
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int silence = kSilenceMilliseconds;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence,
             sizeof silence);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.fd = connection.Release();
  acceptor_->HandleNewConnection(&parameters);
}

void ListeningServer::SetServing(bool serving) {
  auto* health = server_->GetHealthCheckService();
  health->SetServingStatus(serving);  // the server as a whole
  health->SetServingStatus(v1::Coordinator::service_full_name(), serving);
  health->SetServingStatus(v1::Admin::service_full_name(), serving);
  health->SetServingStatus(kAliveService, true);
}

void ListeningServer::Shutdown(absl::Duration timeout) {
  listener_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(absl::ToChronoTime(absl::Now() + timeout));
  }
}

}  // namespace lockstep::rpc

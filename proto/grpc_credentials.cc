#include "proto/grpc_credentials.h"

#include <grpc/grpc_security.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/loop.h"
#include "proto/grpc_process.h"

namespace lockstep::proto {
namespace {

std::shared_ptr<grpc::ChannelCredentials> ToGrpc(
    const tls::TlsContents& contents) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = contents.authority;
  options.pem_private_key = contents.key;
  options.pem_cert_chain = contents.certificate;
  return grpc::SslCredentials(options);
}

// gRPC asks for the certificates when a connection begins its handshake.
class LiveServerCredentials final : public grpc::ServerCredentials {
 public:
  LiveServerCredentials(std::unique_ptr<tls::LiveTlsFolder> folder,
                        absl::Duration interval)
      : folder_(std::move(folder)),
        interval_(interval),
        own_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &LiveServerCredentials::Fetch, this))) {
    loop_.Post([this] { timer_.Set(loop_.clock().Now() + interval_); });
  }
  ~LiveServerCredentials() override {
    loop_.Stop();
    grpc_server_credentials_release(own_);
  }

 private:
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), own_);
  }

  void LookAgain() {
    folder_->Look(absl::Now());
    timer_.Set(loop_.clock().Now() + interval_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<LiveServerCredentials*>(self)->FetchInto(config);
  }
  grpc_ssl_certificate_config_reload_status FetchInto(
      grpc_ssl_server_certificate_config** config) {
    MutexLock lock(&mutex_);
    auto contents = folder_->current();
    if (contents == fetched_) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    fetched_ = std::move(contents);
    const grpc_ssl_pem_key_cert_pair pair = {fetched_->key.c_str(),
                                             fetched_->certificate.c_str()};
    *config = grpc_ssl_server_certificate_config_create(
        fetched_->authority.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::unique_ptr<tls::LiveTlsFolder> folder_;
  const absl::Duration interval_;
  Mutex mutex_;
  std::shared_ptr<const tls::TlsContents> fetched_ ABSL_GUARDED_BY(mutex_);
  grpc_server_credentials* const own_;

  SystemClock clock_;
  Loop loop_{"ls-certs", &clock_};
  Loop::Timer timer_{&loop_, [this] { LookAgain(); }};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ClientCredentials>> ClientCredentials::Make(
    const std::string& tls_folder, std::vector<tls::CertificateRole> roles,
    std::function<void(const std::string&)> on_trouble) {
  StartGrpc();
  if (tls_folder.empty()) {
    return absl::WrapUnique(new ClientCredentials(nullptr));
  }
  auto folder =
      tls::LiveTlsFolder::Open(tls_folder, std::move(roles), absl::Now(),
                               {.trouble = std::move(on_trouble)});
  if (!folder.ok()) return folder.status();
  return absl::WrapUnique(new ClientCredentials(*std::move(folder)));
}

ClientCredentials::ClientCredentials(std::unique_ptr<tls::LiveTlsFolder> folder)
    : folder_(std::move(folder)),
      made_(folder_ == nullptr ? grpc::InsecureChannelCredentials() : nullptr) {
}

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials::Current() {
  MutexLock lock(&mutex_);
  if (folder_ == nullptr) return made_;
  auto contents = folder_->Look(absl::Now());
  if (contents != std::exchange(contents_, contents)) {
    made_ = ToGrpc(*contents);
  }
  return made_;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const ServerTls& options) {
  StartGrpc();
  if (options.folder.empty()) return grpc::InsecureServerCredentials();
  auto folder = tls::LiveTlsFolder::Open(options.folder,
                                         {tls::CertificateRole::kCoordinator},
                                         absl::Now(), options.log);
  if (!folder.ok()) return folder.status();
  return std::make_shared<LiveServerCredentials>(*std::move(folder),
                                                 options.interval);
}

}  // namespace lockstep::proto

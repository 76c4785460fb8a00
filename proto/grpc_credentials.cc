#include "proto/grpc_credentials.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "absl/time/clock.h"
#include "base/tls/tls_folder.h"
#include "proto/grpc_process.h"

namespace lockstep::proto {
namespace {

constexpr unsigned kReloadSeconds = 2;

std::shared_ptr<grpc::experimental::CertificateProviderInterface> Watch(
    const std::string& tls_folder) {
  StartGrpc();
  const tls::TlsFiles files = tls::FilesIn(tls_folder);
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authority, kReloadSeconds);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const std::string& tls_folder) {
  if (tls_folder.empty()) return grpc::InsecureChannelCredentials();
  const auto facts = tls::CheckTlsFolder(tls_folder, absl::Now());
  if (!facts.ok()) return facts.status();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(tls_folder));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& tls_folder) {
  if (tls_folder.empty()) return grpc::InsecureServerCredentials();
  const auto facts = tls::CheckTlsFolder(tls_folder, absl::Now());
  if (!facts.ok()) return facts.status();
  grpc::experimental::TlsServerCredentialsOptions options(Watch(tls_folder));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace lockstep::proto

// gRPC's credentials of a TLS folder (base/tls/tls_folder.h): mutual TLS, 1.2
// or later. Both sides present certificates of the authorities in their ca.crt;
// the client also checks the host name.
//
// The files may be replaced at any time: new connections use new files, open
// ones go on. gRPC gets files only after they were checked
// (base/tls/live_tls_folder.h): the provider of gRPC 1.51 that watches files
// aborts the process when it finds an empty key, or one of another certificate.
//
// Threads: any.
// Errors:  of ReadTlsFolder.

#ifndef LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_
#define LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/tls/live_tls_folder.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace lockstep::proto {

// A client's. gRPC keeps the credentials of a channel, so its owner asks for
// the current ones before it connects again, and makes another channel if they
// have changed.
class ClientCredentials {
 public:
  // An empty folder: plaintext. Its certificate must have one of `roles`.
  // `on_trouble` receives TlsFolderLog::trouble,
  // and may be empty.
  static absl::StatusOr<std::unique_ptr<ClientCredentials>> Make(
      const std::string& tls_folder, std::vector<tls::CertificateRole> roles,
      std::function<void(const std::string&)> on_trouble = {});

  // Reads the files again. The same object until they change.
  std::shared_ptr<grpc::ChannelCredentials> Current();

 private:
  explicit ClientCredentials(std::unique_ptr<tls::LiveTlsFolder> folder);

  const std::unique_ptr<tls::LiveTlsFolder> folder_;  // null: plaintext
  Mutex mutex_;
  std::shared_ptr<const tls::TlsContents> contents_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::ChannelCredentials> made_ ABSL_GUARDED_BY(mutex_);
};

struct ServerTls {
  std::string folder;  // with a coordinator's certificate; empty: plaintext
  // A thread ls-certs reads the files again in each interval.
  absl::Duration interval = absl::Seconds(2);
  tls::TlsFolderLog log;  // on that thread
};

// The result must live until the server has ended.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const ServerTls& options);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_

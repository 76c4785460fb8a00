// gRPC's credentials of a TLS folder (base/tls/tls_folder.h): mutual TLS, 1.2
// or later. Both sides present certificates of the authorities in their ca.crt;
// the client also checks the host name.
//
// The files are read again every two seconds, by a thread of gRPC for each
// object: new connections use new files, open ones go on. Files that cannot be
// used then are ignored.
//
// Threads: any.
// Errors:  of CheckTlsFolder.

#ifndef LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_
#define LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace lockstep::proto {

// An empty folder: plaintext.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const std::string& tls_folder);
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& tls_folder);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_GRPC_CREDENTIALS_H_

// A folder with what one side of a TLS connection needs, under the names that
// Kubernetes' secrets of cert-manager have:
//
//   DIR/ca.crt    the authorities whose certificates are accepted
//   DIR/tls.crt   this side's certificate, then intermediate ones if any
//   DIR/tls.key   its private key, which only its owner can read
//
// `lockstepctl certs` makes such folders.
//
// Threads: any.

#ifndef LOCKSTEP_BASE_TLS_TLS_FOLDER_H_
#define LOCKSTEP_BASE_TLS_TLS_FOLDER_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/tls/certificate.h"

namespace lockstep::tls {

// The largest file that is read; a chain takes a few kilobytes.
inline constexpr size_t kPemBytesMax = size_t{1} << 20;

inline constexpr char kAuthorityFile[] = "ca.crt";
inline constexpr char kCertificateFile[] = "tls.crt";
inline constexpr char kKeyFile[] = "tls.key";

struct TlsFiles {
  std::string authority;
  std::string certificate;
  std::string key;
};
TlsFiles FilesIn(const std::string& folder);

// The files as they were read, in PEM: they belong together.
struct TlsContents {
  std::string authority;
  std::string certificate;
  std::string key;
  CertificateFacts facts;  // of the certificate
};

// The files, if they can be used at the time `now`. Errors name the file:
// NotFound and other errors of the file system, InvalidArgument (no PEM),
// FailedPrecondition (a key that others can read, that does not belong to the
// certificate, a certificate that is expired or of another authority, or that
// has none of `roles`). Without `roles` it is one for a foreign service, of any
// role and authority.
absl::StatusOr<TlsContents> ReadTlsFolder(
    const std::string& folder, absl::Span<const CertificateRole> roles,
    absl::Time now);

// The facts alone, of any role.
absl::StatusOr<CertificateFacts> CheckTlsFolder(const std::string& folder,
                                                absl::Time now);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_FOLDER_H_

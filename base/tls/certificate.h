// Certificates and keys in PEM, over OpenSSL.
//
// What a certificate is for is in its subject: the common name is who it is,
// and the organisational unit `operator` lets it operate jobs.
//
// Threads: any.
// Errors:  InvalidArgument; messages do not name the file, which the caller
//          knows, and never have key material.

#ifndef LOCKSTEP_BASE_TLS_CERTIFICATE_H_
#define LOCKSTEP_BASE_TLS_CERTIFICATE_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep::tls {

// The organisational unit of certificates that may operate jobs.
inline constexpr char kOperatorUnit[] = "operator";

// What a certificate is for.
enum class CertificateRole { kCoordinator = 1, kWorker, kOperator };

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using X509Handle = std::unique_ptr<X509, FreeX509>;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeKey>;

// All certificates of a PEM text, at least one.
absl::StatusOr<std::vector<X509Handle>> ParseCertificates(
    absl::string_view pem);

// A private key without a passphrase.
absl::StatusOr<KeyHandle> ParseKey(absl::string_view pem);

struct CertificateFacts {
  std::string common_name;         // printable
  std::vector<std::string> units;  // organisational
  std::vector<std::string> hosts;  // names and addresses that it is valid for
  absl::Time from;                 // the beginning of its validity
  absl::Time until;                // and its end

  bool IsOperator() const;
  // "of alice", or "without a common name".
  std::string Owner() const;
};
CertificateFacts FactsOf(const X509& certificate);

// "a worker's".
std::string RoleText(CertificateRole role);

// By its usages and its unit. One whose usages are not limited, or that may
// both serve and connect, is of two roles: a coordinator's, and a worker's or
// an operator's.
bool HasRole(X509* certificate, CertificateRole role);

// FailedPrecondition: expired or not valid yet, with the name and the dates.
absl::Status CheckDates(const X509& certificate, absl::Time now);

// OK if `chain` (a leaf and intermediate certificates) leads to one of `roots`
// at the time `now`. FailedPrecondition: expired, not valid yet, or signed by
// another authority, with the name and the dates.
absl::Status CheckChain(const std::vector<X509Handle>& chain,
                        const std::vector<X509Handle>& roots, absl::Time now);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_CERTIFICATE_H_

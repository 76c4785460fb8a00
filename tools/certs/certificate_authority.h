// Makes certificates: an authority, and what it signs. Keys are EC P-256.
//
// The extended key usage separates the two sides: a worker's certificate cannot
// serve as a coordinator's, so a stolen one cannot impersonate it.
//
// Threads: any; an authority is immutable.

#ifndef LOCKSTEP_TOOLS_CERTS_CERTIFICATE_AUTHORITY_H_
#define LOCKSTEP_TOOLS_CERTS_CERTIFICATE_AUTHORITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls/certificate.h"

namespace lockstep::certs {

using tls::CertificateRole;

struct Validity {
  absl::Time from;
  absl::Time until;
};

struct CertificateRequest {
  std::string name;  // the common name
  CertificateRole role = CertificateRole::kWorker;
  // The names and addresses at which a coordinator is reached.
  std::vector<std::string> hosts;
  Validity validity;
};

struct PemPair {
  std::string certificate;
  std::string key;
};

// Whether a certificate can be for it: a name or an address.
bool IsHost(const std::string& host);

class CertificateAuthority {
 public:
  // A new one, self-signed.
  static CertificateAuthority Create(const std::string& name,
                                     const Validity& validity);
  // One that Create made. InvalidArgument: no certificate, or not its key.
  static absl::StatusOr<CertificateAuthority> Parse(const PemPair& pem);

  // InvalidArgument: a name that is empty, has a line break or more than 64
  // bytes; a host that is neither a name nor an address.
  absl::StatusOr<PemPair> Issue(const CertificateRequest& request) const;

  const PemPair& pem() const { return pem_; }

 private:
  CertificateAuthority(PemPair pem, tls::X509Handle certificate,
                       tls::KeyHandle key);

  PemPair pem_;
  tls::X509Handle certificate_;
  tls::KeyHandle key_;
};

}  // namespace lockstep::certs

#endif  // LOCKSTEP_TOOLS_CERTS_CERTIFICATE_AUTHORITY_H_

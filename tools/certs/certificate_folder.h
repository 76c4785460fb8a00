// The folder that `lockstepctl certs` keeps: an authority, and a TLS folder
// (base/tls/tls_folder.h) for each side.
//
//   DIR/ca/ca.crt, ca.key   signs the others; needed only to make more
//   DIR/coordinator/        for lockstepd --tls
//   DIR/worker/             for LOCKSTEP_TLS of workers
//   DIR/operator/           for lockstepctl --tls
//   DIR/NAME/               of Issue
//
// All folders have mode 0700 and all keys 0600. A file is replaced by a rename,
// which follows no symbolic link, and running processes load the new one.
//
// Threads: one.
// Errors:  of the file system, with the path; AlreadyExists, NotFound,
//          InvalidArgument as the functions say.

#ifndef LOCKSTEP_TOOLS_CERTS_CERTIFICATE_FOLDER_H_
#define LOCKSTEP_TOOLS_CERTS_CERTIFICATE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/certs/certificate_authority.h"

namespace lockstep::certs {

inline constexpr char kCoordinatorFolder[] = "coordinator";
inline constexpr char kWorkerFolder[] = "worker";
inline constexpr char kOperatorFolder[] = "operator";

struct CertificateFolderOptions {
  // How the coordinator is reached, besides localhost, 127.0.0.1, ::1 and this
  // host's name. Empty in Renew: as before.
  std::vector<std::string> hosts;
  int days = 365;  // the validity, except that of the authority: ten years
  absl::Time now;
};

// Makes all of it. AlreadyExists: there is an authority in the folder.
absl::Status InitCertificates(const std::string& folder,
                              const CertificateFolderOptions& options);

// The same, but no more certificates can be made: for one coordinator.
absl::Status MakeThrowAwayCertificates(const std::string& folder,
                                       absl::Time now);

// New keys and certificates for coordinator, workers and operators from the
// same authority. NotFound: there is none.
absl::Status RenewCertificates(const std::string& folder,
                               const CertificateFolderOptions& options);

// A TLS folder DIR/NAME for a worker or an operator. AlreadyExists: there is
// such a folder; InvalidArgument: a name that is no file name.
absl::Status IssueCertificate(const std::string& folder,
                              const std::string& name, CertificateRole role,
                              const CertificateFolderOptions& options);

}  // namespace lockstep::certs

#endif  // LOCKSTEP_TOOLS_CERTS_CERTIFICATE_FOLDER_H_

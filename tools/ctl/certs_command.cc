#include "tools/ctl/certs_command.h"

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tools/certs/certificate_folder.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

certs::CertificateFolderOptions Of(const CertsOptions& options) {
  return {.hosts = options.hosts, .days = options.days, .now = absl::Now()};
}

}  // namespace

int CertsInit(const CertsOptions& options) {
  const absl::Status made =
      certs::InitCertificates(options.folder, Of(options));
  if (!made.ok()) return Refuse(made);
  Print(
      absl::StrFormat("%1$s/coordinator  for lockstepd --tls\n"
                      "%1$s/worker       for the workers: LOCKSTEP_TLS\n"
                      "%1$s/operator     for lockstepctl --tls\n"
                      "%1$s/ca           makes more of them: keep it off the "
                      "hosts of workers\n",
                      options.folder));
  return 0;
}

int CertsRenew(const CertsOptions& options) {
  const absl::Status made =
      certs::RenewCertificates(options.folder, Of(options));
  if (!made.ok()) return Refuse(made);
  Print(absl::StrFormat(
      "coordinator, worker and operator in %s have new certificates, valid for "
      "%d days; running processes load them by themselves\n",
      options.folder, options.days));
  return 0;
}

int CertsIssue(const CertsOptions& options) {
  const auto role = options.role == "operator"
                        ? certs::CertificateRole::kOperator
                        : certs::CertificateRole::kWorker;
  const absl::Status made =
      certs::IssueCertificate(options.folder, options.name, role, Of(options));
  if (!made.ok()) return Refuse(made);
  Print(absl::StrFormat("%s/%s is for %s %s\n", options.folder, options.name,
                        options.role, options.name));
  return 0;
}

}  // namespace lockstep::ctl

#include "base/tls/tls_folder.h"

#include <openssl/err.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/secret_file.h"
#include "base/user_file.h"

namespace lockstep::tls {
namespace {

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& path) {
  absl::Status fit = CheckSecretFile(path);
  if (!fit.ok()) return fit;
  return ReadUserFile(path, kPemBytesMax);
}

constexpr CertificateRole kEveryRole[] = {CertificateRole::kCoordinator,
                                          CertificateRole::kWorker,
                                          CertificateRole::kOperator};

absl::Status CheckRole(X509* certificate,
                       absl::Span<const CertificateRole> roles) {
  if (roles.empty()) return absl::OkStatus();
  const auto has = [certificate](CertificateRole role) {
    return HasRole(certificate, role);
  };
  if (std::any_of(roles.begin(), roles.end(), has)) return absl::OkStatus();
  const auto* const found =
      std::find_if(std::begin(kEveryRole), std::end(kEveryRole), has);
  return absl::FailedPreconditionError(absl::StrCat(
      "the certificate ", FactsOf(*certificate).Owner(), " is ",
      found == std::end(kEveryRole) ? "neither a server's nor a client's"
                                    : RoleText(*found),
      ", and this needs ",
      absl::StrJoin(roles, " or ",
                    [](std::string* out, CertificateRole role) {
                      absl::StrAppend(out, RoleText(role));
                    }),
      ": name another folder of lockstepctl certs"));
}

}  // namespace

TlsFiles FilesIn(const std::string& folder) {
  return {.authority = absl::StrCat(folder, "/", kAuthorityFile),
          .certificate = absl::StrCat(folder, "/", kCertificateFile),
          .key = absl::StrCat(folder, "/", kKeyFile)};
}

absl::StatusOr<TlsContents> ReadTlsFolder(
    const std::string& folder, absl::Span<const CertificateRole> roles,
    absl::Time now) {
  const TlsFiles files = FilesIn(folder);
  auto authority = ReadUserFile(files.authority, kPemBytesMax);
  if (!authority.ok()) return authority.status();
  const auto roots = ParseCertificates(*authority);
  if (!roots.ok()) return In(files.authority, roots.status());
  auto certificate = ReadUserFile(files.certificate, kPemBytesMax);
  if (!certificate.ok()) return certificate.status();
  const auto chain = ParseCertificates(*certificate);
  if (!chain.ok()) return In(files.certificate, chain.status());
  auto secret = ReadKeyFile(files.key);
  if (!secret.ok()) return secret.status();
  const auto key = ParseKey(*secret);
  if (!key.ok()) return In(files.key, key.status());
  const bool pair =
      X509_check_private_key(chain->front().get(), key->get()) == 1;
  ERR_clear_error();
  if (!pair) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.key, " is not the key of ", files.certificate));
  }
  // The other side of a foreign service has authorities of its own for clients.
  const absl::Status good = roles.empty() ? CheckDates(*chain->front(), now)
                                          : CheckChain(*chain, *roots, now);
  if (!good.ok()) return In(files.certificate, good);
  const absl::Status fit = CheckRole(chain->front().get(), roles);
  if (!fit.ok()) return In(files.certificate, fit);
  return TlsContents{.authority = *std::move(authority),
                     .certificate = *std::move(certificate),
                     .key = *std::move(secret),
                     .facts = FactsOf(*chain->front())};
}

absl::StatusOr<CertificateFacts> CheckTlsFolder(const std::string& folder,
                                                absl::Time now) {
  auto contents = ReadTlsFolder(folder, kEveryRole, now);
  if (!contents.ok()) return contents.status();
  return std::move(contents->facts);
}

}  // namespace lockstep::tls

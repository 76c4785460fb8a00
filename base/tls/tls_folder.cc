#include "base/tls/tls_folder.h"

#include <openssl/err.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/secret_file.h"
#include "base/user_file.h"

namespace lockstep::tls {
namespace {

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::vector<X509Handle>> ReadCertificates(
    const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadUserFile(path, kPemBytesMax);
  if (!pem.ok()) return pem.status();
  auto certificates = ParseCertificates(*pem);
  if (!certificates.ok()) return In(path, certificates.status());
  return certificates;
}

absl::StatusOr<KeyHandle> ReadKey(const std::string& path) {
  absl::Status fit = CheckSecretFile(path);
  if (!fit.ok()) return fit;
  const absl::StatusOr<std::string> pem = ReadUserFile(path, kPemBytesMax);
  if (!pem.ok()) return pem.status();
  auto key = ParseKey(*pem);
  if (!key.ok()) return In(path, key.status());
  return key;
}

}  // namespace

TlsFiles FilesIn(const std::string& folder) {
  return {.authority = absl::StrCat(folder, "/", kAuthorityFile),
          .certificate = absl::StrCat(folder, "/", kCertificateFile),
          .key = absl::StrCat(folder, "/", kKeyFile)};
}

absl::StatusOr<CertificateFacts> CheckTlsFolder(const std::string& folder,
                                                absl::Time now) {
  const TlsFiles files = FilesIn(folder);
  const auto roots = ReadCertificates(files.authority);
  if (!roots.ok()) return roots.status();
  const auto chain = ReadCertificates(files.certificate);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(files.key);
  if (!key.ok()) return key.status();
  const bool pair =
      X509_check_private_key(chain->front().get(), key->get()) == 1;
  ERR_clear_error();
  if (!pair) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.key, " is not the key of ", files.certificate));
  }
  const absl::Status good = CheckChain(*chain, *roots, now);
  if (!good.ok()) return In(files.certificate, good);
  return FactsOf(*chain->front());
}

}  // namespace lockstep::tls

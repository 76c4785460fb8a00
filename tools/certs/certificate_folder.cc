#include "tools/certs/certificate_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "base/text/utf8.h"
#include "base/tls/tls_folder.h"
#include "base/user_file.h"

namespace lockstep::certs {
namespace {

constexpr char kAuthorityFolder[] = "ca";
constexpr char kAuthorityKeyFile[] = "ca.key";
constexpr char kAuthorityName[] = "Lockstep";
constexpr size_t kFolderNameBytesMax = 64;  // of a common name in X.509
constexpr absl::Duration kTenYears = absl::Hours(24 * 3653);
constexpr int kThrowAwayDays = 3650;  // no job is longer
// Clocks of hosts differ.
constexpr absl::Duration kBefore = absl::Hours(1);

bool Exists(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0;
}

// All files are secrets to the file system: there is no reason for others to
// read certificates here.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string fresh = absl::StrCat(path, ".new");
  if (absl::Status written = WriteSecretFile(fresh, text); !written.ok()) {
    return written;
  }
  if (std::rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("rename to ", path));
}

absl::Status WriteTlsFolder(const std::string& folder,
                            const std::string& authority, const PemPair& pem) {
  if (absl::Status made = MakePrivateDirectory(folder); !made.ok()) return made;
  const tls::TlsFiles files = tls::FilesIn(folder);
  absl::Status written = Replace(files.authority, authority);
  // The key first: without its certificate it proves nothing.
  if (written.ok()) written = Replace(files.key, pem.key);
  if (written.ok()) written = Replace(files.certificate, pem.certificate);
  return written;
}

Validity ValidityOf(const CertificateFolderOptions& options) {
  return {options.now - kBefore, options.now + absl::Hours(24) * options.days};
}

// With those by which a coordinator is always reached from its own host.
std::vector<std::string> WithOwnHosts(std::vector<std::string> hosts) {
  for (const std::string& own :
       {std::string("localhost"), std::string("127.0.0.1"), std::string("::1"),
        HostName()}) {
    const bool is_new = !absl::c_linear_search(hosts, own);
    if (is_new && IsHost(own)) hosts.push_back(own);
  }
  return hosts;
}

// What the coordinator's certificate is valid for now.
absl::StatusOr<std::vector<std::string>> HostsIn(const std::string& folder) {
  const std::string path =
      tls::FilesIn(absl::StrCat(folder, "/", kCoordinatorFolder)).certificate;
  const auto pem = ReadUserFile(path, tls::kPemBytesMax);
  if (!pem.ok()) return pem.status();
  const auto certificates = tls::ParseCertificates(*pem);
  if (!certificates.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", certificates.status().message()));
  }
  return tls::FactsOf(*certificates->front()).hosts;
}

absl::Status IssueInto(const std::string& folder,
                       const CertificateAuthority& authority,
                       const CertificateRequest& request) {
  const absl::StatusOr<PemPair> pem = authority.Issue(request);
  if (!pem.ok()) return pem.status();
  return WriteTlsFolder(absl::StrCat(folder, "/", request.name),
                        authority.pem().certificate, *pem);
}

absl::Status IssueAll(const std::string& folder,
                      const CertificateAuthority& authority,
                      const CertificateFolderOptions& options) {
  const Validity validity = ValidityOf(options);
  absl::Status issued = IssueInto(folder, authority,
                                  {.name = kCoordinatorFolder,
                                   .role = CertificateRole::kCoordinator,
                                   .hosts = options.hosts,
                                   .validity = validity});
  if (issued.ok()) {
    issued = IssueInto(folder, authority,
                       {.name = kWorkerFolder,
                        .role = CertificateRole::kWorker,
                        .validity = validity});
  }
  if (issued.ok()) {
    issued = IssueInto(folder, authority,
                       {.name = kOperatorFolder,
                        .role = CertificateRole::kOperator,
                        .validity = validity});
  }
  return issued;
}

absl::StatusOr<CertificateAuthority> LoadAuthority(const std::string& folder) {
  const std::string own = absl::StrCat(folder, "/", kAuthorityFolder);
  const std::string key_file = absl::StrCat(own, "/", kAuthorityKeyFile);
  if (!Exists(key_file)) {
    return absl::NotFoundError(absl::StrCat("there is no authority in ", folder,
                                            ": lockstepctl certs init ", folder,
                                            " makes one"));
  }
  if (absl::Status fit = CheckSecretFile(key_file); !fit.ok()) return fit;
  const auto certificate = ReadUserFile(
      absl::StrCat(own, "/", tls::kAuthorityFile), tls::kPemBytesMax);
  if (!certificate.ok()) return certificate.status();
  const auto key = ReadUserFile(key_file, tls::kPemBytesMax);
  if (!key.ok()) return key.status();
  auto authority = CertificateAuthority::Parse({*certificate, *key});
  if (authority.ok()) return authority;
  return absl::InvalidArgumentError(
      absl::StrCat(own, ": ", authority.status().message()));
}

// An authority that was replaced by the files of another folder must not come
// back.
absl::Status CheckSameAuthority(const std::string& folder,
                                const CertificateAuthority& authority) {
  for (const char* side :
       {kCoordinatorFolder, kWorkerFolder, kOperatorFolder}) {
    const std::string file =
        absl::StrCat(folder, "/", side, "/", tls::kAuthorityFile);
    if (!Exists(file)) continue;
    const auto trusted = ReadUserFile(file, tls::kPemBytesMax);
    if (!trusted.ok()) return trusted.status();
    if (*trusted == authority.pem().certificate) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        file, " is not, or not only, the authority in ", folder, "/",
        kAuthorityFolder,
        ": it was replaced, or is about to be. Renew the folder of the new "
        "authority, and copy its certificates"));
  }
  return absl::OkStatus();
}

bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= kFolderNameBytesMax &&
         name[0] != '.' && !absl::StrContains(name, '/') &&
         IsPrintableUtf8(name) && name != kAuthorityFolder;
}

}  // namespace

absl::Status InitCertificates(const std::string& folder,
                              const CertificateFolderOptions& options) {
  const std::string own = absl::StrCat(folder, "/", kAuthorityFolder);
  if (Exists(own)) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is an authority in ", folder,
                     " already: lockstepctl certs renew ", folder,
                     " makes new certificates from it"));
  }
  absl::Status made = MakePrivateDirectory(folder);
  if (made.ok()) made = MakePrivateDirectory(own);
  if (!made.ok()) return made;
  const auto authority = CertificateAuthority::Create(
      kAuthorityName, {options.now - kBefore, options.now + kTenYears});
  made = Replace(absl::StrCat(own, "/", tls::kAuthorityFile),
                 authority.pem().certificate);
  if (made.ok()) {
    made =
        Replace(absl::StrCat(own, "/", kAuthorityKeyFile), authority.pem().key);
  }
  if (!made.ok()) return made;
  CertificateFolderOptions complete = options;
  complete.hosts = WithOwnHosts(options.hosts);
  return IssueAll(folder, authority, complete);
}

absl::Status MakeThrowAwayCertificates(const std::string& folder,
                                       absl::Time now) {
  absl::Status made =
      InitCertificates(folder, {.days = kThrowAwayDays, .now = now});
  const std::string authority = absl::StrCat(folder, "/", kAuthorityFolder);
  std::error_code error;
  std::filesystem::remove_all(authority, error);
  if (made.ok() && error) {
    return absl::InternalError(absl::StrCat("cannot remove the key in ",
                                            authority, ": ", error.message()));
  }
  return made;
}

absl::Status RenewCertificates(const std::string& folder,
                               const CertificateFolderOptions& options) {
  const auto authority = LoadAuthority(folder);
  if (!authority.ok()) return authority.status();
  absl::Status same = CheckSameAuthority(folder, *authority);
  if (!same.ok()) return same;
  CertificateFolderOptions complete = options;
  if (complete.hosts.empty()) {
    auto hosts = HostsIn(folder);
    if (!hosts.ok()) return hosts.status();
    complete.hosts = *std::move(hosts);
  } else {
    complete.hosts = WithOwnHosts(options.hosts);
  }
  return IssueAll(folder, *authority, complete);
}

absl::Status IssueCertificate(const std::string& folder,
                              const std::string& name, CertificateRole role,
                              const CertificateFolderOptions& options) {
  if (!IsFileName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(name.substr(0, kFolderNameBytesMax)),
                     "' cannot be the name of a folder in ", folder));
  }
  const std::string own = absl::StrCat(folder, "/", name);
  if (Exists(own)) {
    return absl::AlreadyExistsError(
        absl::StrCat(own, " exists: remove it, or give another name"));
  }
  const auto authority = LoadAuthority(folder);
  if (!authority.ok()) return authority.status();
  return IssueInto(folder, *authority,
                   {.name = name,
                    .role = role,
                    .hosts = options.hosts,
                    .validity = ValidityOf(options)});
}

}  // namespace lockstep::certs

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/secret_file.h"
#include "base/text/token_text.h"
#include "base/tls/tls_folder.h"
#include "base/user_file.h"
#include "server/access/token_files.h"
#include "server/offline/journal_inspection.h"
#include "tools/doctor/gather.h"

namespace lockstep::doctor {
namespace {

// linux/magic.h has the first; the others are in the kernel's file systems.
constexpr unsigned kNfs = 0x6969;
constexpr unsigned kSmb = 0x517b;
constexpr unsigned kCifs = 0xff534d42;
constexpr unsigned kSmb2 = 0xfe534d42;
constexpr unsigned kCeph = 0x00c36400;
constexpr unsigned kAfs = 0x5346414f;

bool IsOnNetwork(unsigned type) {
  return type == kNfs || type == kSmb || type == kCifs || type == kSmb2 ||
         type == kCeph || type == kAfs;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// A daemon holds the lock as long as it runs.
bool IsLocked(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && flock(fd.get(), LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

std::string ParentOf(const std::string& folder) {
  const size_t end = folder.find_last_not_of('/');
  const size_t slash = folder.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

absl::Status CheckParent(const std::string& parent) {
  if (access(parent.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, absl::StrCat("the journal's folder cannot be made in ", parent));
}

void ReadSpace(const std::string& folder, JournalFolderFacts* journal) {
  struct statfs found {};
  // What is not known is no finding.
  journal->free_bytes = journal->free_files =
      std::numeric_limits<uint64_t>::max();
  if (statfs(folder.c_str(), &found) != 0) return;
  journal->is_on_network = IsOnNetwork(static_cast<unsigned>(found.f_type));
  journal->free_bytes = uint64_t{found.f_bavail} * found.f_bsize;
  // Some file systems do not count files.
  if (found.f_files > 0) journal->free_files = found.f_ffree;
}

}  // namespace

TlsFacts GatherTls(const std::string& folder,
                   absl::Span<const tls::CertificateRole> roles,
                   absl::Time now) {
  const tls::TlsFiles files = tls::FilesIn(folder);
  TlsFacts facts{.folder = folder,
                 .usable = tls::ReadTlsFolder(folder, roles, now).status(),
                 .key = CheckSecretFile(files.key),
                 .certificate = std::nullopt};
  const auto pem = ReadUserFile(files.certificate, tls::kPemBytesMax);
  if (!pem.ok()) return facts;
  const auto chain = tls::ParseCertificates(*pem);
  if (chain.ok()) facts.certificate = tls::FactsOf(*chain->front());
  return facts;
}

TokenFacts GatherTokenFile(const std::string& path) {
  TokenFacts facts{.source = path, .is_file = true, .usable = {}, .tokens = 0};
  const auto lines = ReadSecretLines(path);
  facts.usable = lines.status();
  if (!lines.ok()) return facts;
  facts.tokens = static_cast<int>(lines->size());
  for (const std::string& line : *lines) {
    facts.usable.Update(CheckToken(line, path));
  }
  return facts;
}

TokenFacts GatherToken(const std::string& source, const std::string& token) {
  return {.source = source,
          .is_file = false,
          .usable = CheckToken(token, source),
          .tokens = 1};
}

DaemonTokenFacts GatherDaemonTokens(const std::string& operators,
                                    const std::string& workers) {
  const auto tokens =
      rpc::ReadTokens({.operators = operators, .workers = workers});
  return {.usable = tokens.status(),
          .warning = tokens.ok() ? rpc::WarningOfShortTokens(*tokens) : ""};
}

JournalFolderFacts GatherJournal(const std::string& folder) {
  JournalFolderFacts journal;
  journal.folder = folder;
  journal.reader = geteuid();
  struct stat found {};
  journal.exists = stat(folder.c_str(), &found) == 0;
  ReadSpace(journal.exists ? folder : ParentOf(folder), &journal);
  if (!journal.exists) {
    journal.parent_writable = CheckParent(ParentOf(folder));
    return journal;
  }
  journal.owner = found.st_uid;
  journal.mode = found.st_mode;
  journal.is_folder = S_ISDIR(found.st_mode);
  if (!journal.is_folder) return journal;
  journal.in_use = IsLocked(absl::StrCat(folder, "/lock"));
  if (journal.in_use) return journal;
  if (!Exists(absl::StrCat(folder, "/journal.db"))) {
    journal.inspected = absl::NotFoundError("no journal");
  } else {
    const auto inspected = offline::Inspect(folder);
    journal.inspected = inspected.ok() ? inspected->damage : inspected.status();
  }
  return journal;
}

}  // namespace lockstep::doctor

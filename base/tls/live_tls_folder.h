// A TLS folder as its files have it now, or as they had it when they could last
// be used.
//
//   the files ──Look──▶ ReadTlsFolder ─┬─ can be used ──▶ the next connection
//                                      └─ cannot: the former ones stay, one
//                                      line
//
// So certificates can be replaced in any way while a process runs, by cp too.
// For a moment a file is then empty or cut off, or the key is not yet that of
// the certificate. gRPC must not see such files: it would abort the process.
//
// Threads: any.

#ifndef LOCKSTEP_BASE_TLS_LIVE_TLS_FOLDER_H_
#define LOCKSTEP_BASE_TLS_LIVE_TLS_FOLDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/tls/tls_folder.h"

namespace lockstep::tls {

// Log lines, on the thread that looks. Each may be empty.
struct TlsFolderLog {
  // The files cannot be used, and why: once until that changes.
  std::function<void(const std::string&)> trouble;
  // Other files are used from now on.
  std::function<void(const std::string&)> change;
};

class LiveTlsFolder {
 public:
  // Errors: those of ReadTlsFolder.
  static absl::StatusOr<std::unique_ptr<LiveTlsFolder>> Open(
      const std::string& folder, std::vector<CertificateRole> roles,
      absl::Time now, TlsFolderLog log);

  // Reads the files, and returns what is to be used: the same object until they
  // change.
  std::shared_ptr<const TlsContents> Look(absl::Time now);

  // As the last Look found them.
  std::shared_ptr<const TlsContents> current() const;

 private:
  LiveTlsFolder(std::string folder, std::vector<CertificateRole> roles,
                TlsFolderLog log, TlsContents contents);

  const std::string folder_;
  const std::vector<CertificateRole> roles_;
  const TlsFolderLog log_;

  mutable Mutex mutex_;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);  // of the last Look
  std::shared_ptr<const TlsContents> contents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_LIVE_TLS_FOLDER_H_

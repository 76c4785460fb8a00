#include "server/access/local_journal.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lockstep {

absl::Status CheckLocalJournal(const std::string& where,
                               const std::string& etcd_tls) {
  if (!etcd_tls.empty()) {
    return absl::InvalidArgumentError(
        "--etcd_tls is for a --journal in etcd: etcd://HOST:PORT/PREFIX");
  }
  // A slash, so that a misspelt "memory" is no new folder.
  if (where == kJournalInMemory || absl::StrContains(where, '/')) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--journal is \"", where,
      "\": it is memory, a folder with a slash, such as ./journal, or "
      "etcd://HOST:PORT/PREFIX"));
}

}  // namespace lockstep

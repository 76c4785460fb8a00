// The journal of --journal, and with etcd, that this coordinator leads.
//
// Threads: one for OpenJournal and the destructor; `on_lost` is called on a
//          thread of its own.

#ifndef LOCKSTEP_SERVER_OPEN_JOURNAL_H_
#define LOCKSTEP_SERVER_OPEN_JOURNAL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/ids.h"
#include "server/access/local_journal.h"
#include "server/etcd/client.h"
#include "server/etcd/leadership.h"
#include "server/journal/journal.h"
#include "server/journal/memory_journal.h"
#include "server/observe/log.h"

namespace lockstep {

struct JournalOptions {
  std::string where;  // memory, a folder with a slash, or etcd://...
  std::string etcd_tls;
  // Members of etcd on other machines may be asked in plaintext.
  bool insecure = false;
  std::string identity;  // of this coordinator, for the others
  // Once, if another coordinator may lead from now on.
  std::function<void(const absl::Status&)> on_lost;
  // With etcd: what keeps this coordinator from leading, each time that
  // changes.
  std::function<void(const std::string&)> on_wait;
  // Whether to stop waiting; asked every 20 ms.
  std::function<bool()> gives_up;
};

// InvalidArgument or FailedPrecondition if `options` name no journal that could
// be opened.
absl::Status CheckJournal(const JournalOptions& options);

// What to do about the damage of the journal there, for people.
std::string AdviceFor(const std::string& where);

// In the order in which they are made.
struct OpenedJournal {
  OpenedJournal() = default;
  OpenedJournal(OpenedJournal&&) = default;

  std::unique_ptr<journal::MemoryStore> memory;
  std::unique_ptr<etcd::Client> etcd;
  std::unique_ptr<etcd::Leadership> leadership;
  std::unique_ptr<journal::Journal> journal;
  LeaderTerm term{1};
};

// With etcd, waits until this coordinator leads; Cancelled if it gives up.
absl::StatusOr<OpenedJournal> OpenJournal(const JournalOptions& options,
                                          observe::Log* log);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_OPEN_JOURNAL_H_

// A journal on a disk, without a daemon: what it has, and its repair.
//
//   intact records                  | damaged | perhaps intact |
//   └─▶ Inspect: records, state       └─▶ damage: never read further
//
// Repair keeps the state of the intact records, but for running jobs: which
// epoch they are in is lost with the rest. Such a job becomes one that has had
// no epoch, and its workers, which train on, offer it for adoption in the epoch
// that they are in (docs/decisions/0017-adoption-of-running-jobs.md). Epochs of
// jobs that are not adopted begin above any that a worker may report.
//
// Threads: any; the functions lock the folder.
// Errors:  those of SqliteStore::Open and Read (server/journal/sqlite_store.h).

#ifndef LOCKSTEP_SERVER_OFFLINE_JOURNAL_INSPECTION_H_
#define LOCKSTEP_SERVER_OFFLINE_JOURNAL_INSPECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protocol/ids.h"
#include "protocol/record.h"
#include "protocol/snapshot.h"

namespace lockstep::offline {

struct InspectedJournal {
  std::optional<record::StateSnapshot> snapshot;
  std::vector<record::Record> records;  // those after it
  record::StateSnapshot state;          // what both add up to
  uint64_t promised = 0;                // as StoredJournal::promised
  std::vector<std::string> notes;
  absl::Status damage;  // OK, or DataLoss: the first damaged record
};

// Changes no file, and makes none.
absl::StatusOr<InspectedJournal> Inspect(const std::string& folder);

// journal::DamageAdvice, for the tools.
std::string DamageAdvice(absl::string_view folder);

struct RepairedJournal {
  absl::Status damage;           // OK: nothing was changed
  uint64_t records = 0;          // kept
  uint64_t lost = 0;             // known to be lost; there may be more
  std::vector<JobName> running;  // without an epoch now
  EpochId epoch_floor;
  std::string damaged_files;  // the folder that has the old files
};

absl::StatusOr<RepairedJournal> Repair(const std::string& folder);

}  // namespace lockstep::offline

#endif  // LOCKSTEP_SERVER_OFFLINE_JOURNAL_INSPECTION_H_

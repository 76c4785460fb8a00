// Where a journal's frames are kept: in a folder (sqlite_store.h), or in etcd
// (etcd_store.h). GroupCommitJournal makes a Journal of it.
//
// Threads: one at a time.
// Errors:  DataLoss: damage, with the record. ResourceExhausted: no room; the
//          same call may succeed later. Others are final.

#ifndef LOCKSTEP_SERVER_JOURNAL_STORE_H_
#define LOCKSTEP_SERVER_JOURNAL_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/journal/frame.h"

namespace lockstep::journal {

// What was read, up to the first damaged record.
struct StoredJournal {
  std::vector<std::string> snapshot;  // parts; empty: none
  Chain snapshot_end;                 // after the records that it replaces
  std::vector<std::string> records;   // payloads
  Chain chain;                        // after the last of them
  uint64_t promised = 0;              // the newest record of the mark; 0: none
  std::vector<std::string> notes;     // what an operator should know, if any
  absl::Status damage;                // OK, or DataLoss
};

class Store {
 public:
  virtual ~Store() = default;

  // First, once. An error if nothing can be read; else see `damage`, with which
  // nothing may be appended.
  virtual absl::StatusOr<StoredJournal> Read() = 0;

  // Durable when it returns OK. After ResourceExhausted the same call may be
  // repeated, and has no effect that lasts otherwise. `end` is the chain after
  // the frames, the first of which has number `first`.
  virtual absl::Status Append(uint64_t first,
                              const std::vector<std::string>& frames,
                              const Chain& end) = 0;

  // Replaces the snapshot and the records up to `of`. Durable when it returns
  // OK; after ResourceExhausted those records are still there.
  virtual absl::Status ReplaceBySnapshot(
      const Chain& of, const std::vector<std::string>& parts) = 0;

  // Called now and then, when nothing waits.
  virtual void Maintain() {}
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_STORE_H_

// The coordinator's journal: an ordered list of records that survives a crash.
//
// The interface between the core's promises and a disk. A journal stores byte
// strings and does not interpret them (proto's codec makes them from records);
// each is stored in a frame (frame.h), whatever the store.
//
//   Load()                        once, first: what earlier runs left
//   Append(r1), Append(r2), ...   durable(r1), durable(r2), ... in this order
//   Compact(s)                    s in place of all records appended before it
//
//   records    1 2 3 4 5 6          1 2 3 4 5 6 7
//   Compact          after 4              |
//   is kept    [snapshot of 1..4] 5 6 7 ──┘
//
// tests/server/journal/journal_contract.h tests every implementation.
//
// Threads: all methods from one thread. Callbacks are called on a thread of the
//          journal's choice, one at a time, perhaps before the method returns.
// Errors:  once a record failed, every later one fails too: there are no gaps.

#ifndef LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_
#define LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::journal {

// What a journal has kept.
struct LoadedJournal {
  std::vector<std::string> snapshot;  // in parts; empty: none
  uint64_t snapshot_of = 0;           // it replaces the records 1 .. this
  std::vector<std::string> records;   // those after it
  std::vector<std::string> notes;     // what an operator should know, if any
};

class Journal {
 public:
  using Durable = absl::AnyInvocable<void(absl::Status)>;
  using MakeSnapshot = absl::AnyInvocable<std::vector<std::string>()>;
  using Trouble = absl::AnyInvocable<void(absl::Status)>;

  // Records that are not durable yet may or may not be kept; the destructor
  // first calls their callbacks, with Cancelled unless they became durable.
  virtual ~Journal() = default;

  // Every record that was ever reported durable, in order, and perhaps some
  // appended later. DataLoss names a damaged record.
  virtual absl::StatusOr<LoadedJournal> Load() = 0;

  // Makes one record durable. `durable` is called exactly once: with OK, or
  // with the error. Load must have succeeded.
  virtual void Append(std::string record, Durable durable) = 0;

  // Replaces the snapshot and all records appended so far by the parts that
  // `make` returns, atomically. Does not wait; `make` is called on the
  // journal's thread once those records are durable, or never if they fail.
  // Without room on the disk the records are kept.
  virtual void Compact(MakeSnapshot make) = 0;

  // Before the first Append: whom to tell that records cannot become durable
  // for now (ResourceExhausted: the disk, or etcd, is full), and, with OK, that
  // they can again. Those records wait meanwhile.
  virtual void OnTrouble(Trouble) {}
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_

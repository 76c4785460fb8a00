// The coordinator's journal: an ordered list of records that survives a crash.
//
// The interface between the core's promises and a disk. A journal stores byte
// strings and does not interpret them (proto's codec makes them from records);
// each is stored in a frame (frame.h), whatever the store.
//
//   Load()                        once, first: the records of earlier runs
//   Append(r1), Append(r2), ...   durable(r1), durable(r2), ... in this order
//
// tests/server/journal/journal_contract.h tests every implementation.
//
// Threads: Load and Append from one thread. `durable` is called on a thread of
//          the journal's choice, one at a time, perhaps before Append returns.
// Errors:  once a record failed, every later one fails too: there are no gaps.

#ifndef LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_
#define LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::journal {

class Journal {
 public:
  using Durable = absl::AnyInvocable<void(absl::Status)>;

  // Records that are not durable yet may or may not be kept; the destructor
  // first calls their callbacks, with Cancelled unless they became durable.
  virtual ~Journal() = default;

  // Every record that was ever reported durable, in order, and perhaps some
  // appended later. DataLoss names a damaged record.
  virtual absl::StatusOr<std::vector<std::string>> Load() = 0;

  // Makes one record durable. `durable` is called exactly once: with OK, or
  // with the error. Load must have succeeded.
  virtual void Append(std::string record, Durable durable) = 0;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_

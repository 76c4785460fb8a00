// What survives a crash of the coordinator: an ordered list of records.
//
// The seam between the core's promises and a disk. A journal keeps byte strings
// and knows nothing of what is in them (proto's codec makes them from records);
// each lies in a frame (frame.h), whatever the store.
//
//   Load()                        once, first: what an earlier life kept
//   Append(r1), Append(r2), ...   durable(r1), durable(r2), ... in this order
//
// tests/server/journal/journal_contract.h holds every implementation to this.
//
// Threads: Load and Append from one thread. `durable` is called on a thread of
//          the journal's choosing, one at a time, perhaps before Append
//          returns.
// Errors:  once a record failed, every later one fails too: there is no hole.

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

  // Records that were not durable yet may or may not be kept; their callbacks
  // are called first, with Cancelled unless they became durable.
  virtual ~Journal() = default;

  // Every record that was ever reported durable, in order; perhaps some more
  // that were appended after. DataLoss: a damaged record, which is named.
  virtual absl::StatusOr<std::vector<std::string>> Load() = 0;

  // Makes one record durable. `durable` is called exactly once: OK, or why it
  // is not. Load must have succeeded.
  virtual void Append(std::string record, Durable durable) = 0;
};

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_JOURNAL_H_

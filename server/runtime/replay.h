// Replays the journal of earlier runs, before the first event.

#ifndef LOCKSTEP_SERVER_RUNTIME_REPLAY_H_
#define LOCKSTEP_SERVER_RUNTIME_REPLAY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protocol/record.h"
#include "protocol/snapshot.h"
#include "server/core/coordinator.h"
#include "server/journal/journal.h"

namespace lockstep::runtime {

// proto's codec, as functions: this module does not link it.
struct JournalCodec {
  std::function<std::string(const record::Record&)> record_bytes;
  std::function<absl::StatusOr<record::Record>(absl::string_view)> parse_record;
  std::function<std::vector<std::string>(const record::StateSnapshot&)>
      snapshot_parts;
  std::function<absl::StatusOr<record::StateSnapshot>(
      const std::vector<std::string>&)>
      parse_snapshot;
};

struct Replayed {
  int records = 0;                 // after the snapshot, if there is one
  std::vector<std::string> notes;  // LoadedJournal::notes
};

// Errors: those of Load (DataLoss); DataLoss naming a record that cannot be
// decoded or cannot follow; FailedPrecondition for a snapshot of a newer
// version.
absl::StatusOr<Replayed> Replay(journal::Journal* journal,
                                const JournalCodec& codec,
                                core::Coordinator* coordinator);

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_REPLAY_H_

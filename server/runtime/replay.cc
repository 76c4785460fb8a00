#include "server/runtime/replay.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep::runtime {
namespace {

absl::Status RestoreFrom(const journal::LoadedJournal& kept,
                         const JournalCodec& codec,
                         core::Coordinator* coordinator) {
  const auto snapshot = codec.parse_snapshot(kept.snapshot);
  if (absl::IsFailedPrecondition(snapshot.status())) return snapshot.status();
  absl::StatusOr<core::DurableState> state =
      snapshot.ok() ? core::StateOf(*snapshot)
                    : absl::StatusOr<core::DurableState>(snapshot.status());
  if (!state.ok()) {
    return absl::DataLossError(absl::StrCat("the snapshot in the journal: ",
                                            state.status().message()));
  }
  if (state->records != kept.snapshot_of) {
    return absl::DataLossError(absl::StrCat(
        "the snapshot in the journal is of record ", state->records,
        ", and replaces the records up to ", kept.snapshot_of));
  }
  coordinator->Restore(*std::move(state));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Replayed> Replay(journal::Journal* journal,
                                const JournalCodec& codec,
                                core::Coordinator* coordinator) {
  absl::StatusOr<journal::LoadedJournal> kept = journal->Load();
  if (!kept.ok()) return kept.status();
  if (!kept->snapshot.empty()) {
    const absl::Status restored = RestoreFrom(*kept, codec, coordinator);
    if (!restored.ok()) return restored;
  }
  Replayed replayed{.notes = std::move(kept->notes)};
  for (const std::string& bytes : kept->records) {
    ++replayed.records;
    const absl::StatusOr<record::Record> record = codec.parse_record(bytes);
    absl::Status status = record.status();
    if (status.ok()) status = coordinator->Replay(*record);
    if (status.ok()) continue;
    return absl::DataLossError(
        absl::StrCat("record ", kept->snapshot_of + replayed.records, " of ",
                     kept->snapshot_of + kept->records.size(),
                     " in the journal: ", status.message()));
  }
  return replayed;
}

}  // namespace lockstep::runtime

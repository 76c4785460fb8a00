#include "server/runtime/replay.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::runtime {

absl::StatusOr<int> Replay(
    journal::Journal* journal,
    const std::function<absl::StatusOr<record::Record>(absl::string_view)>&
        decode,
    core::Coordinator* coordinator) {
  const absl::StatusOr<std::vector<std::string>> kept = journal->Load();
  if (!kept.ok()) return kept.status();
  int count = 0;
  for (const std::string& bytes : *kept) {
    ++count;
    const absl::StatusOr<record::Record> record = decode(bytes);
    absl::Status status = record.status();
    if (status.ok()) status = coordinator->Replay(*record);
    if (status.ok()) continue;
    return absl::DataLossError(
        absl::StrCat("record ", count, " of ", kept->size(),
                     " in the journal: ", status.message()));
  }
  return count;
}

}  // namespace lockstep::runtime

#include "server/journal/memory_journal.h"

#include <utility>

#include "base/check.h"

namespace lockstep::journal {

absl::StatusOr<LoadedJournal> MemoryJournal::Load() {
  absl::StatusOr<Recovered> recovered =
      Recover(store_.frames, store_.snapshot_end);
  if (!recovered.ok()) return recovered.status();
  store_.frames.resize(store_.frames.size() - recovered->torn);
  chain_ = recovered->chain;
  loaded_ = true;
  return LoadedJournal{.snapshot = store_.snapshot,
                       .snapshot_of = store_.snapshot_end.last_number(),
                       .records = std::move(recovered->payloads)};
}

void MemoryJournal::Append(std::string record, Durable durable) {
  Check(loaded_, "a journal is loaded before it is appended to");
  store_.frames.push_back(chain_.Extend(std::move(record)));
  durable(absl::OkStatus());
}

void MemoryJournal::Compact(MakeSnapshot make) {
  Check(loaded_, "a journal is loaded before it is compacted");
  store_ = {.snapshot = make(), .snapshot_end = chain_};
}

}  // namespace lockstep::journal

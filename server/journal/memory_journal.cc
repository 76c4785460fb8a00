#include "server/journal/memory_journal.h"

#include <utility>

#include "base/check.h"

namespace lockstep::journal {

absl::StatusOr<std::vector<std::string>> MemoryJournal::Load() {
  absl::StatusOr<Recovered> recovered = Recover(store_.frames);
  if (!recovered.ok()) return recovered.status();
  store_.frames.resize(store_.frames.size() - recovered->torn);
  chain_ = recovered->chain;
  loaded_ = true;
  return std::move(recovered->payloads);
}

void MemoryJournal::Append(std::string record, Durable durable) {
  Check(loaded_, "a journal is loaded before it is appended to");
  store_.frames.push_back(chain_.Extend(std::move(record)));
  durable(absl::OkStatus());
}

}  // namespace lockstep::journal

#include "tests/sim/sim_journal.h"

#include <utility>

namespace lockstep::sim {

void SimDisk::CrashMachine(std::mt19937_64* random) {
  const size_t unsynced = frames.size() - safe;
  const size_t kept = safe + (*random)() % (unsynced + 1);
  const bool tears = kept < frames.size() && (*random)() % 2 == 0;
  frames.resize(kept + (tears ? 1 : 0));
  if (tears) frames.back().resize((*random)() % frames.back().size());
  safe = frames.size();
}

absl::StatusOr<journal::LoadedJournal> SimJournal::Load() {
  absl::StatusOr<journal::Recovered> recovered =
      journal::Recover(disk_->frames, disk_->base);
  if (!recovered.ok()) return recovered.status();
  disk_->frames.resize(disk_->frames.size() - recovered->torn);
  disk_->safe = disk_->frames.size();
  chain_ = recovered->chain;
  return journal::LoadedJournal{.snapshot = disk_->snapshot,
                                .snapshot_of = disk_->base.last_number(),
                                .records = std::move(recovered->payloads)};
}

void SimJournal::Append(std::string record, Durable durable) {
  disk_->frames.push_back(chain_.Extend(std::move(record)));
  waiting_.push_back(std::move(durable));
  if (!syncing_) StartSync();
}

void SimJournal::StartSync() {
  syncing_ = true;
  sync_([this, frames = waiting_.size()] { Synced(frames); });
}

void SimJournal::Synced(size_t frames) {
  syncing_ = false;
  disk_->safe += frames;
  for (size_t i = 0; i < frames; ++i) {
    Durable durable = std::move(waiting_.front());
    waiting_.pop_front();
    durable(absl::OkStatus());
  }
  CompactDue();
  if (!syncing_ && !waiting_.empty()) StartSync();
}

void SimJournal::Compact(MakeSnapshot make) {
  compactions_.push_back({chain_.last_number(), std::move(make)});
  CompactDue();
}

void SimJournal::CompactDue() {
  while (!compactions_.empty()) {
    Compaction& next = compactions_.front();
    const uint64_t safe = disk_->base.last_number() + disk_->safe;
    if (next.through > safe) return;
    disk_->snapshot = next.make();
    while (disk_->base.last_number() < next.through) {
      disk_->base = journal::Chain(disk_->base.last_number() + 1,
                                   journal::HashOf(disk_->frames.front()));
      disk_->frames.erase(disk_->frames.begin());
      --disk_->safe;
    }
    compactions_.pop_front();
  }
}

}  // namespace lockstep::sim

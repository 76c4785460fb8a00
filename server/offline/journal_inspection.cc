#include "server/offline/journal_inspection.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "proto/codec.h"
#include "server/core/durable_state.h"
#include "server/journal/sqlite_store.h"

namespace lockstep::offline {
namespace {

// More than the epochs that can have begun in records of which nothing is left,
// not even how many there were.
constexpr uint64_t kEpochsLostMax = 1'000'000;

// Decodes and applies what was read.
InspectedJournal Interpret(journal::StoredJournal stored) {
  InspectedJournal inspected{.promised = stored.promised,
                             .notes = std::move(stored.notes),
                             .damage = std::move(stored.damage)};
  core::DurableState state;
  if (!stored.snapshot.empty()) {
    auto snapshot = proto::ParseSnapshot(stored.snapshot);
    if (!snapshot.ok()) {
      inspected.damage = absl::DataLossError(snapshot.status().message());
      return inspected;
    }
    inspected.snapshot = *std::move(snapshot);
    auto restored = core::StateOf(*inspected.snapshot);
    if (!restored.ok()) {
      inspected.damage = absl::DataLossError(restored.status().message());
      return inspected;
    }
    state = *std::move(restored);
  }
  for (const std::string& bytes : stored.records) {
    auto record = proto::ParseRecord(bytes);
    absl::Status applied = record.status();
    if (applied.ok()) applied = core::Apply(*record, &state);
    if (!applied.ok()) {
      inspected.damage =
          journal::DamagedRecord(state.records + 1, applied.message());
      break;
    }
    inspected.records.push_back(*std::move(record));
  }
  inspected.state = core::SnapshotOf(state);
  return inspected;
}

absl::StatusOr<InspectedJournal> Read(journal::SqliteStore* store) {
  absl::StatusOr<journal::StoredJournal> stored = store->Read();
  if (!stored.ok()) return stored.status();
  return Interpret(*std::move(stored));
}

// The job's workers know the rest, and offer it.
void ForgetEpochs(record::DurableJob* job) {
  *job = {.spec = std::move(job->spec),
          .token_hash = std::move(job->token_hash),
          .checkpoint = std::move(job->checkpoint)};
}

}  // namespace

std::string DamageAdvice(absl::string_view folder) {
  return journal::DamageAdvice(folder);
}

absl::StatusOr<InspectedJournal> Inspect(const std::string& folder) {
  auto store = journal::SqliteStore::Open(folder, journal::StoreAccess::kRead);
  if (!store.ok()) return store.status();
  return Read(store->get());
}

namespace {

// A repair writes files that the daemon's user must be able to write, too.
absl::Status CheckOwner(const std::string& folder) {
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0 || found.st_uid == geteuid()) {
    return absl::OkStatus();  // Open says what is wrong with the folder
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s belongs to user %d, and this process runs as user %d: repair it as "
      "that user: setpriv --reuid %d --clear-groups lockstepctl journal repair "
      "%s",
      folder, found.st_uid, geteuid(), found.st_uid, folder));
}

}  // namespace

absl::StatusOr<RepairedJournal> Repair(const std::string& folder) {
  if (absl::Status own = CheckOwner(folder); !own.ok()) return own;
  auto store =
      journal::SqliteStore::Open(folder, journal::StoreAccess::kInspect);
  if (!store.ok()) return store.status();
  absl::StatusOr<InspectedJournal> inspected = Read(store->get());
  if (!inspected.ok()) return inspected.status();
  record::StateSnapshot& state = inspected->state;
  RepairedJournal repaired{.damage = inspected->damage,
                           .records = state.records};
  if (repaired.damage.ok()) return repaired;

  const uint64_t promised = std::max(inspected->promised, state.records);
  repaired.lost = promised - state.records;
  EpochId highest = state.epoch_floor;
  for (const record::DurableJob& job : state.jobs) {
    highest = std::max(highest, job.epoch);
  }
  state.epoch_floor = {highest.value + std::max(repaired.lost, kEpochsLostMax)};
  state.records = promised;
  for (record::DurableJob& job : state.jobs) {
    if (job.ended) continue;
    if (job.epoch.value != 0) repaired.running.push_back(job.name());
    ForgetEpochs(&job);
    job.epoch_floor = state.epoch_floor;
  }
  repaired.epoch_floor = state.epoch_floor;

  auto old_files =
      (*store)->ReplaceDamaged(state.records, proto::SnapshotParts(state));
  if (!old_files.ok()) return old_files.status();
  repaired.damaged_files = *std::move(old_files);
  return repaired;
}

}  // namespace lockstep::offline

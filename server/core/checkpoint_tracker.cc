#include "server/core/checkpoint_tracker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/status_text.h"

namespace lockstep::core {
namespace {

constexpr size_t kMembersMax = 3;  // that try to write a manifest

// Keeps the first ones, and returns how many there are more.
int Cut(std::vector<protocol::CheckpointFault>* faults) {
  constexpr size_t kMax = protocol::kCheckpointFaultsMax;
  const size_t more = faults->size() - std::min(faults->size(), kMax);
  faults->resize(faults->size() - more);
  return static_cast<int>(more);
}

std::string BytesText(uint64_t bytes) {
  constexpr double kKibi = 1024;
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kKibi && unit + 1 < std::size(units)) {
    value /= kKibi;
    ++unit;
  }
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string FaultsText(const std::vector<protocol::CheckpointFault>& faults,
                       int more) {
  std::vector<std::string> texts;
  for (const protocol::CheckpointFault& fault : faults) {
    texts.push_back(
        absl::StrFormat("rank %d: %s", fault.rank, fault.error.ToString()));
  }
  if (more > 0) texts.push_back(absl::StrCat("and ", Count(more, "more rank")));
  return absl::StrJoin(texts, "; ");
}

// `report` differs in the number of bytes only.
bool OnlyGrows(const std::optional<protocol::CheckpointReport>& before,
               const protocol::CheckpointReport& report) {
  if (!before || !before->save || !report.save) return false;
  protocol::CheckpointReport same = report;
  same.save->bytes_done = before->save->bytes_done;
  return same == *before;
}

}  // namespace

CheckpointTracker::CheckpointTracker(const DurableJob& durable,
                                     CheckpointHistory& history)
    : durable_(durable), history_(history), ranks_(durable.members.size()) {
  const auto& committed = durable.checkpoint;
  if (committed && committed->epoch == durable.epoch) {
    outcome_.decided = committed->number;
    // After a restart: the directory's newest was reported before these.
    history_.committed = std::max<std::optional<CheckpointName>>(
        history_.committed, committed->name);
  }
}

// --- Messages ---------------------------------------------------------------

std::optional<EpochEnd> CheckpointTracker::On(
    int rank, const protocol::CheckpointReport& report, EpochContext& context) {
  RankState& state = ranks_[rank];
  if (state.left) return std::nullopt;
  const bool is_repeated = state.report == report;
  if (!is_repeated) context.Touch(rank);
  if (is_repeated || OnlyGrows(state.report, report)) {
    state.report = report;
    return std::nullopt;
  }
  if (report.decided > outcome_.decided) {
    outcome_.decided = report.decided;
    outcome_.faults = report.faults;
    outcome_.faults_more = report.faults_more;
    member_ = -1;
  }
  if (report.save && report.save->number > next()) {
    return context.Mismatch(
        rank, absl::StrFormat("begins save %d, but save %d has no outcome yet",
                              report.save->number, next()));
  }
  state.report = report;
  if (rank == 0 && report.directory && !outcome_.opened) Adopt();
  if (report.save && report.save->number > began_) {
    began_ = report.save->number;
    began_at_ = context.now();
  }
  Advance(context);
  return std::nullopt;
}

void CheckpointTracker::Leave(int rank, EpochContext& context) {
  RestoreLeft(rank);
  Advance(context);
}

void CheckpointTracker::Resume(int rank, EpochContext& context) {
  Advance(context);
  if (told_ != protocol::CheckpointNews()) Tell(rank, context);
}

void CheckpointTracker::Advance(EpochContext& context) {
  OpenAgain();
  Open();
  Decide(context);
  Tell(context);
}

// --- Opening ----------------------------------------------------------------

void CheckpointTracker::Adopt() {
  outcome_.directory = ranks_[0].report->directory;
  history_.committed = std::max(history_.committed, outcome_.directory->newest);
}

bool CheckpointTracker::HasTried(int rank) const {
  const auto& report = ranks_[rank].report;
  if (!report || !report->access) return false;
  return !report->directory ||
         report->directory->nonce == outcome_.directory->nonce;
}

bool CheckpointTracker::OpensAgain(int rank) const {
  const RankState& state = ranks_[rank];
  if (!outcome_.opened || state.left || !state.report) return false;
  if (rank != 0) return !state.report->access;
  return state.report->directory &&
         state.report->directory->nonce != outcome_.directory->nonce;
}

// A rank that opens again has learned the outcome of the opening before, so
// nobody needs that any more once all ranks do.
void CheckpointTracker::OpenAgain() {
  opening_again_ = 0;
  int left = 0;
  for (int rank = 0; rank < size(); ++rank) {
    opening_again_ += OpensAgain(rank);
    left += ranks_[rank].left;
  }
  if (!OpensAgain(0) || opening_again_ + left < size()) return;
  Adopt();
  outcome_.opened = false;
  outcome_.access_faults.clear();
  outcome_.access_faults_more = 0;
  opening_again_ = 0;
}

void CheckpointTracker::Open() {
  if (outcome_.opened || !outcome_.directory) return;
  std::vector<Fault> faults;
  for (int rank = 0; rank < size(); ++rank) {
    const RankState& state = ranks_[rank];
    const bool has_tried = HasTried(rank);
    if (!has_tried && !state.left) return;
    if (!has_tried) {
      faults.push_back({rank, absl::FailedPreconditionError(
                                  "left without reading the directory")});
    } else if (!state.report->access->ok()) {
      faults.push_back({rank, *state.report->access});
    }
  }
  outcome_.opened = true;
  outcome_.access_faults_more = Cut(&faults);
  outcome_.access_faults = std::move(faults);
}

// --- Saves ------------------------------------------------------------------

const CheckpointTracker::Save* CheckpointTracker::Find(int rank) const {
  const auto& report = ranks_[rank].report;
  const bool has = report && report->save && report->save->number == next();
  return has ? &*report->save : nullptr;
}

bool CheckpointTracker::IsWriting(int rank) const {
  const Save* save = Find(rank);
  return !ranks_[rank].left && save != nullptr &&
         save->stage == Save::Stage::kWriting;
}

bool CheckpointTracker::IsMissing(int rank) const {
  return !ranks_[rank].left && (Find(rank) == nullptr || IsWriting(rank));
}

CheckpointTracker::SaveTotals CheckpointTracker::Count() const {
  SaveTotals totals;
  for (int rank = 0; rank < size(); ++rank) {
    if (IsMissing(rank)) ++totals.missing;
    const Save* save = Find(rank);
    if (save == nullptr) continue;
    ++totals.begun;
    if (totals.first < 0) {
      totals.first = rank;
      totals.step = save->step;
    }
    totals.bytes_done += save->bytes_done;
    totals.bytes_total += save->bytes_total;
  }
  return totals;
}

bool CheckpointTracker::IsPrepared() const {
  const auto& prepared = durable_.checkpoint_prepared;
  return prepared && prepared->epoch == durable_.epoch &&
         prepared->number == next();
}

void CheckpointTracker::Decide(EpochContext& context) {
  const SaveTotals totals = Count();
  if (totals.begun == 0) return;
  for (int rank = 0; rank < size(); ++rank) {
    const Save* save = Find(rank);
    const bool is_committed =
        save != nullptr && save->committed && save->committed->ok();
    if (is_committed) return Commit(totals, context);
  }
  if (totals.missing > 0) return;
  std::vector<Fault> faults = Faults(totals);
  if (!faults.empty()) return Fail(totals, std::move(faults), context);
  Prepare(totals, context);
}

std::vector<CheckpointTracker::Fault> CheckpointTracker::Faults(
    const SaveTotals& totals) const {
  std::vector<Fault> faults;
  if (!outcome_.directory && !IsPrepared()) {
    faults.push_back({0, absl::FailedPreconditionError(
                             "left without naming the directory")});
    return faults;
  }
  for (int rank = 0; rank < size(); ++rank) {
    const Save* save = Find(rank);
    if (save == nullptr || save->stage == Save::Stage::kWriting) {
      if (IsPrepared()) continue;
      faults.push_back(
          {rank, absl::FailedPreconditionError(absl::StrFormat(
                     "left without saving step %d", totals.step))});
    } else if (save->stage == Save::Stage::kFailed) {
      faults.push_back({rank, save->error});
    } else if (save->step != totals.step) {
      faults.push_back(
          {rank, absl::FailedPreconditionError(absl::StrFormat(
                     "saved step %d, but rank %d saved step %d: Save is "
                     "called at other steps",
                     save->step, totals.first, totals.step))});
    }
  }
  return faults;
}

CheckpointName CheckpointTracker::NameOf(const SaveTotals& totals) const {
  if (IsPrepared()) return durable_.checkpoint_prepared->name;
  const int64_t first =
      outcome_.directory ? outcome_.directory->first_attempt : 1;
  return {.step = totals.step,
          .epoch = static_cast<int64_t>(durable_.epoch.value),
          .attempt = first + static_cast<int64_t>(outcome_.decided)};
}

// The manifest has the hashes, so they are recorded before a member is told.
void CheckpointTracker::Prepare(const SaveTotals& totals,
                                EpochContext& context) {
  if (!IsPrepared()) {
    record::SavePrepared prepared{
        .epoch = durable_.epoch, .number = next(), .name = NameOf(totals)};
    for (int rank = 0; rank < size(); ++rank) {
      prepared.part_hashes.push_back(Find(rank)->part_hash);
    }
    context.Record(std::move(prepared));
  }
  if (!ChooseMember(context)) Fail(totals, FailedMembers(), context);
}

std::vector<CheckpointTracker::Fault> CheckpointTracker::FailedMembers() const {
  std::vector<Fault> faults;
  for (int rank = 0; rank < size(); ++rank) {
    const Save* save = Find(rank);
    const bool failed =
        save != nullptr && save->committed && !save->committed->ok();
    if (failed) faults.push_back({rank, *save->committed});
  }
  if (faults.empty()) {
    faults.push_back(
        {0, absl::FailedPreconditionError(
                "all ranks left before the manifest was written")});
  }
  return faults;
}

bool CheckpointTracker::ChooseMember(const EpochContext& context) {
  const auto may = [this](int rank) {
    const Save* save = Find(rank);
    return !ranks_[rank].left && save != nullptr && !save->committed;
  };
  if (member_ >= 0 && may(member_)) return true;
  member_ = -1;
  size_t failed = 0;
  bool any = false;
  for (int rank = 0; rank < size(); ++rank) {
    const Save* save = Find(rank);
    if (save != nullptr && save->committed) ++failed;
    if (!may(rank)) continue;
    any = true;
    const bool has_stream = context.members.At(rank).session.value != 0;
    if (member_ < 0 && has_stream) member_ = rank;
  }
  if (failed >= kMembersMax) member_ = -1;
  return any && failed < kMembersMax;
}

void CheckpointTracker::Commit(const SaveTotals& totals,
                               EpochContext& context) {
  const CheckpointName name = NameOf(totals);
  context.Record(record::SaveCommitted{
      .epoch = durable_.epoch, .number = next(), .name = name});
  history_.committed = name;
  history_.committed_at = context.now();
  context.Remember(absl::StrFormat(
      "checkpoint of step %d committed (attempt %d, %s in %.1f s)", name.step,
      name.attempt, BytesText(totals.bytes_total),
      absl::ToDoubleSeconds(context.now() - began_at_)));
  ++outcome_.decided;
  outcome_.faults.clear();
  outcome_.faults_more = 0;
  member_ = -1;
}

void CheckpointTracker::Fail(const SaveTotals& totals,
                             std::vector<Fault> faults, EpochContext& context) {
  ++outcome_.decided;
  outcome_.faults_more = Cut(&faults);
  outcome_.faults = std::move(faults);
  member_ = -1;
  history_.failure = FaultsText(outcome_.faults, outcome_.faults_more);
  history_.failed_step = totals.step;
  history_.failed_at = context.now();
  ++history_.failures;
  context.Remember(absl::StrFormat("checkpoint of step %d failed: %s",
                                   totals.step, history_.failure));
}

// --- News -------------------------------------------------------------------

void CheckpointTracker::Tell(EpochContext& context) {
  const bool only_member = outcome_ == told_;
  if (only_member && member_ == told_member_) return;
  const int before = std::exchange(told_member_, member_);
  told_ = outcome_;
  for (int rank = 0; rank < size(); ++rank) {
    if (only_member && rank != before && rank != member_) continue;
    Tell(rank, context);
  }
}

void CheckpointTracker::Tell(int rank, EpochContext& context) const {
  if (ranks_[rank].left) return;
  protocol::CheckpointNews news = told_;
  if (rank == member_) {
    news.prepared = {next(), durable_.checkpoint_prepared->part_hashes};
  }
  context.Send(rank, std::move(news));
}

// --- Waiting ----------------------------------------------------------------

bool CheckpointTracker::Awaits(int rank) const {
  const RankState& state = ranks_[rank];
  if (state.left || !state.report) return false;
  if (!outcome_.directory) return rank != 0;
  if (!outcome_.opened) return HasTried(rank);
  if (opening_again_ > 0) return OpensAgain(rank);
  return Find(rank) != nullptr && !IsWriting(rank) && rank != member_;
}

std::vector<int> CheckpointTracker::Awaited() const {
  std::vector<int> awaited;
  bool any_awaits = false;
  for (int rank = 0; rank < size(); ++rank) {
    if (Awaits(rank)) {
      any_awaits = true;
    } else if (!Lack(rank).empty()) {
      awaited.push_back(rank);
    }
  }
  if (!any_awaits) awaited.clear();
  return awaited;
}

std::string CheckpointTracker::Lack(int rank) const {
  const RankState& state = ranks_[rank];
  if (state.left || Awaits(rank)) return "";
  if (!outcome_.directory) {
    return rank == 0 ? "has not opened the checkpoints' directory" : "";
  }
  if (!outcome_.opened || opening_again_ > 0) {
    return "has not opened the checkpoints' directory";
  }
  if (rank == member_) return "has not written the checkpoint's manifest";
  if (began_ < next()) return "";
  return "has not written its part of the checkpoint";
}

// --- The view ---------------------------------------------------------------

void CheckpointTracker::Describe(absl::Time now, CheckpointView* view) const {
  const SaveTotals totals = Count();
  if (totals.begun == 0) return;
  view->saving = true;
  view->saving_step = totals.step;
  view->bytes_done = totals.bytes_done;
  view->bytes_total = totals.bytes_total;
  view->saving_for = now - began_at_;
}

}  // namespace lockstep::core

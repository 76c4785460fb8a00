#include "client/state/saver.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/status.h"
#include "base/text/count.h"
#include "base/thread.h"
#include "client/checkpoint/manifest.h"
#include "client/state/attempt.h"
#include "client/state/job_directory.h"
#include "client/state/load_state.h"

namespace lockstep::state {
namespace {

using protocol::CheckpointFault;
using protocol::CheckpointNews;
using protocol::CheckpointSave;

constexpr absl::Duration kNonceRetry = absl::Milliseconds(20);
constexpr absl::Duration kProgressInterval = absl::Seconds(1);

// The error of several ranks, with the code of the first.
absl::Status JoinFaults(absl::string_view what,
                        const std::vector<CheckpointFault>& faults, int more) {
  if (faults.empty()) return absl::OkStatus();
  std::vector<std::string> texts;
  for (const CheckpointFault& fault : faults) {
    texts.push_back(
        absl::StrCat("rank ", fault.rank, ": ",
                     absl::string_view(fault.error.message().data(),
                                       fault.error.message().size())));
  }
  if (more > 0) texts.push_back(absl::StrCat("and ", Count(more, "more rank")));
  return absl::Status(faults[0].error.code(),
                      absl::StrCat(what, ": ", absl::StrJoin(texts, "; ")));
}

void Warn(const std::string& text) {
  std::fprintf(stderr, "lockstep: warning: %s\n", text.c_str());
}

}  // namespace

Saver::Saver(CheckpointJob job, const Context& context,
             const SaverOptions& options)
    : job_(std::move(job)),
      context_(context),
      options_(options),
      snapshot_(&job_, context.device) {}

absl::StatusOr<std::unique_ptr<Saver>> Saver::Open(CheckpointJob job,
                                                   const Context& context,
                                                   const SaverOptions& options,
                                                   const absl::Status& ready) {
  std::unique_ptr<Saver> saver(new Saver(std::move(job), context, options));
  // Empty: this rank has come, and waits.
  context.channel->Report(saver->report_);
  if (saver->job_.rank == 0) saver->OpenAsRankZero(ready);
  absl::Status agreed = saver->Agree(ready);
  if (!ready.ok()) return ready;
  if (!agreed.ok()) return agreed;
  return saver;
}

void Saver::OpenAsRankZero(const absl::Status& ready) {
  const std::string nonce = NewNonce();
  auto opened = ready.ok() ? OpenDirectory(context_.files, options_.directory,
                                           nonce, ThisProcess())
                           : absl::StatusOr<OpenedDirectory>(ready);
  report_.access = opened.status();
  if (opened.ok()) {
    lock_ = std::move(opened->lock);
    if (!opened->not_removed.ok()) {
      Warn(std::string(opened->not_removed.message()));
    }
    report_.directory = std::move(opened->found);
  } else {
    // The other ranks must not wait for it.
    report_.directory = {.path = options_.directory,
                         .nonce = NewNonceOfFailure()};
  }
  context_.channel->Report(report_);
}

absl::Status Saver::AwaitNonce(const protocol::CheckpointDirectory& found) {
  if (IsOfFailure(found.nonce)) return absl::OkStatus();  // rank 0 says why
  const Deadline deadline(options_.nonce_patience);
  while (true) {
    absl::Status status =
        ReadNonce(context_.files, options_.directory, found.nonce);
    if (status.ok()) {
      return TryToWrite(context_.files, options_.directory, found.nonce,
                        job_.rank);
    }
    if (deadline.Passed()) {
      return WithContext(
          absl::StrCat("this rank does not see the directory that rank 0 "
                       "has opened as ",
                       found.path),
          status);
    }
    absl::SleepFor(kNonceRetry);
  }
}

absl::Status Saver::Agree(const absl::Status& ready) {
  const auto is_of_another = [this](const CheckpointNews& newest) {
    return newest.directory.has_value() &&
           newest.directory->nonce != *context_.last_nonce;
  };
  auto news = context_.channel->Await(is_of_another);
  if (!news.ok()) return news.status();
  *context_.last_nonce = news->directory->nonce;
  if (job_.rank != 0) {
    report_.directory = news->directory;
    report_.access = ready.ok() ? AwaitNonce(*news->directory) : ready;
    context_.channel->Report(report_);
  }
  news = context_.channel->Await([&](const CheckpointNews& newest) {
    return newest.opened || is_of_another(newest);
  });
  if (!news.ok()) return news.status();
  if (lock_ != nullptr) {
    absl::Status removed =
        RemoveNonce(context_.files, options_.directory, *context_.last_nonce);
    if (!removed.ok()) Warn(std::string(removed.message()));
  }
  if (is_of_another(*news)) {
    // The coordinator was restarted before it had told this rank.
    return absl::FailedPreconditionError(absl::StrCat(
        options_.directory,
        " cannot have checkpoints: other ranks have learned why, and open ",
        news->directory->path));
  }
  absl::Status faults =
      JoinFaults(absl::StrCat(options_.directory, " cannot have checkpoints"),
                 news->access_faults, news->access_faults_more);
  if (!faults.ok()) return absl::FailedPreconditionError(faults.message());
  first_attempt_ = news->directory->first_attempt;
  MutexLock lock(&mutex_);
  newest_ = news->directory->newest;
  return absl::OkStatus();
}

Saver::~Saver() {
  {
    MutexLock lock(&mutex_);
    AwaitIdle();
    stopping_ = true;
    if (!unreturned_.ok()) Warn(std::string(unreturned_.message()));
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status Saver::SessionStatus() {
  const absl::Status status =
      context_.channel
          ->Await([](const CheckpointNews&) { return false; },
                  absl::InfinitePast())
          .status();
  return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
}

void Saver::AwaitIdle() {
  while (task_.has_value()) changed_.Wait(&mutex_);
}

absl::Status Saver::Save(const TrainingState& training, Stream* stream) {
  {
    MutexLock lock(&mutex_);
    AwaitIdle();
  }
  absl::Status over = SessionStatus();
  if (!over.ok()) return over;
  const absl::Time began = absl::Now();
  SaveTask task{.number = ++number_, .training = training};
  task.attempt = {
      .step = training.step,
      .epoch = job_.epoch,
      .attempt = first_attempt_ + static_cast<int64_t>(number_) - 1};
  // A save that this rank refuses has its number on all ranks: they learn that
  // it failed.
  task.refused = checkpoint::Validate(training);
  if (task.refused.ok()) task.refused = snapshot_.Take(stream);
  const absl::Status refused = task.refused;
  absl::Status earlier;
  {
    MutexLock lock(&mutex_);
    if (refused.ok()) std::swap(earlier, unreturned_);
    progress_ = {.saving = true,
                 .step = training.step,
                 .bytes_total = snapshot_.bytes()};
    began_ = began;
    task_ = std::move(task);
  }
  if (!thread_.joinable()) {
    thread_ = StartThread("ls-save", [this] { Run(); });
  }
  changed_.NotifyAll();
  return refused.ok() ? earlier : refused;
}

absl::Status Saver::Wait() {
  MutexLock lock(&mutex_);
  AwaitIdle();
  return std::exchange(unreturned_, absl::OkStatus());
}

void Saver::AwaitOutcomes() {
  MutexLock lock(&mutex_);
  AwaitIdle();
}

std::optional<CheckpointName> Saver::newest() const {
  MutexLock lock(&mutex_);
  return newest_;
}

absl::StatusOr<TrainingState> Saver::Load(
    const LoadCheckpointOptions& options) {
  std::optional<CheckpointName> name;
  {
    MutexLock lock(&mutex_);
    AwaitIdle();
    name = newest_;
  }
  if (!options.step.has_value() && !name.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(options_.directory, " has no committed checkpoint"));
  }
  const auto folder =
      options.step.has_value()
          ? FindStep(context_.files, options_.directory, *options.step)
          : FolderOf(options_.directory, *name);
  if (!folder.ok()) return folder.status();
  return LoadState(context_.files, *folder, job_, context_.device, options);
}

SaveProgress Saver::progress() const {
  MutexLock lock(&mutex_);
  SaveProgress progress = progress_;
  if (progress.saving) {
    progress.seconds = absl::ToDoubleSeconds(absl::Now() - began_);
  }
  return progress;
}

// --- On ls-save --------------------------------------------------------------

void Saver::Run() {
  while (true) {
    SaveTask task;
    {
      MutexLock lock(&mutex_);
      while (!task_.has_value() && !stopping_) changed_.Wait(&mutex_);
      if (!task_.has_value()) return;
      task = *task_;
    }
    bool decided = false;
    absl::Status outcome = Perform(task, &decided);
    const bool saved = outcome.ok();
    {
      MutexLock lock(&mutex_);
      if (saved) newest_ = std::max(newest_, {task.attempt});
      if (task.refused.ok()) unreturned_.Update(std::move(outcome));
      progress_.saving = false;
      progress_.seconds = absl::ToDoubleSeconds(absl::Now() - began_);
      task_.reset();
    }
    changed_.NotifyAll();
    // Without an outcome it may be committed.
    if (decided && lock_ != nullptr) CleanUp(task, saved);
  }
}

absl::Status Saver::Perform(const SaveTask& task, bool* decided) {
  report_.save = CheckpointSave{.number = task.number,
                                .step = std::max<int64_t>(task.attempt.step, 0),
                                .stage = CheckpointSave::Stage::kWriting,
                                .bytes_total = snapshot_.bytes()};
  if (task.refused.ok()) context_.channel->Report(report_);
  const auto hash = task.refused.ok()
                        ? Write(task)
                        : absl::StatusOr<std::string>(task.refused);
  if (hash.ok()) {
    report_.save->stage = CheckpointSave::Stage::kWritten;
    report_.save->part_hash = *hash;
  } else {
    report_.save->stage = CheckpointSave::Stage::kFailed;
    report_.save->error = hash.status();
  }
  context_.channel->Report(report_);
  return AwaitOutcome(task, decided);
}

absl::StatusOr<std::string> Saver::Write(const SaveTask& task) {
  absl::Status copied = snapshot_.Wait();
  if (!copied.ok()) return copied;
  return WriteRankFiles(
      context_.files, FolderOf(options_.directory, task.attempt), job_,
      task.training,
      {.at = [this](size_t part) { return snapshot_.at(part); },
       .on_progress = [this](uint64_t done) { ReportProgress(done); },
       .file_bytes_max = options_.file_bytes_max});
}

void Saver::ReportProgress(uint64_t bytes_done) {
  {
    MutexLock lock(&mutex_);
    progress_.bytes_done = bytes_done;
  }
  report_.save->bytes_done = bytes_done;
  const absl::Time now = absl::Now();
  if (now - reported_ < kProgressInterval) return;
  reported_ = now;
  context_.channel->Report(report_);
}

absl::Status Saver::AwaitOutcome(const SaveTask& task, bool* decided) {
  while (true) {
    const auto news =
        context_.channel->Await([&](const CheckpointNews& newest) {
          const bool told = newest.prepared.has_value() &&
                            newest.prepared->number == task.number &&
                            !report_.save->committed.has_value();
          return newest.decided >= task.number || told;
        });
    if (!news.ok()) return news.status();
    if (news->decided >= task.number) {
      *decided = true;
      return JoinFaults(absl::StrCat("the checkpoint of step ",
                                     task.attempt.step, " was not saved"),
                        news->faults, news->faults_more);
    }
    CommitFor(task, *news->prepared);
  }
}

void Saver::CommitFor(const SaveTask& task,
                      const protocol::CheckpointPrepared& told) {
  const auto folder = FolderOf(options_.directory, task.attempt);
  report_.save->committed =
      CommitParts(context_.files, folder, job_, told.part_hashes);
  context_.channel->Report(report_);
  if (report_.save->committed->ok()) {
    RemoveParts(context_.files, folder, job_);
  }
}

void Saver::CleanUp(const SaveTask& task, bool saved) {
  absl::Status removed =
      saved ? RemoveOld(context_.files, options_.directory, task.attempt,
                        options_.retention)
            : checkpoint::RemoveAttempt(
                  context_.files, FolderOf(options_.directory, task.attempt));
  // A save that failed early has no folder.
  if (removed.ok() || (!saved && absl::IsNotFound(removed))) return;
  Warn(absl::StrCat(
      "old checkpoints in ", options_.directory, " were not removed: ",
      absl::string_view(removed.message().data(), removed.message().size())));
}

}  // namespace lockstep::state

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text/count.h"
#include "base/text/units.h"
#include "base/text/utf8.h"
#include "tools/ctl/choose_job.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

std::string Text(std::string_view text) { return std::string(text); }

// One line per row; each column is as wide as its longest cell.
std::string Aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppend(&text, row[i],
                      std::string(widths[i] - row[i].size() + 2, ' '));
    }
    absl::StrAppend(&text, row.back(), "\n");
  }
  return text;
}

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

int CountReady(const JobView& view) {
  return static_cast<int>(std::count_if(
      view.workers.begin(), view.workers.end(), [](const WorkerView& worker) {
        return worker.state == WorkerState::kReady;
      }));
}

// A worker sends at least four messages per lease: it is silent if one is
// overdue.
bool IsSilent(const WorkerView& worker, const JobView& view) {
  const bool may_speak = worker.state == WorkerState::kJoining ||
                         worker.state == WorkerState::kReady ||
                         worker.state == WorkerState::kSuspect;
  return may_speak && !IsOver(view.state) &&
         worker.silent_for > view.spec.timeouts.lease * 3 / 8;
}

std::string SilentFor(const WorkerView& worker) {
  return absl::StrCat("silent for ",
                      absl::FormatDuration(absl::Trunc(
                          worker.silent_for, absl::Milliseconds(100))));
}

// "worker-1 is silent for 4.2s, and 2 more".
std::string SilentWorkers(const JobView& view) {
  std::string text;
  int more = 0;
  for (const WorkerView& worker : view.workers) {
    if (!IsSilent(worker, view)) continue;
    if (text.empty()) {
      text = absl::StrCat(worker.name.value, " is ", SilentFor(worker));
    } else {
      ++more;
    }
  }
  if (more > 0) absl::StrAppend(&text, ", and ", more, " more");
  return text;
}

bool AllPaused(const JobView& view) {
  return view.state == JobState::kRunning &&
         std::all_of(view.workers.begin(), view.workers.end(),
                     [](const WorkerView& worker) {
                       return worker.rank < 0 || worker.paused;
                     });
}

std::string WantedText(const JobView& view, Command command) {
  const std::string reason = view.wanted.reason.empty()
                                 ? ""
                                 : absl::StrCat(" (", view.wanted.reason, ")");
  if (command == Command::kPause && AllPaused(view)) {
    return absl::StrCat("paused", reason);
  }
  // A drain is wanted until the next epoch begins, which a restart relies on.
  if (command == Command::kDrain && view.state == JobState::kForming) {
    return absl::StrCat("drained", reason);
  }
  return absl::StrCat(Text(Name(command)), " is wanted", reason);
}

// The remarks on a worker that no column shows.
std::string RemarksOn(const WorkerView& worker, const JobView& view) {
  std::string text;
  const bool is_behind =
      worker.revision.value != 0 && worker.revision != view.revision;
  if (is_behind) {
    absl::StrAppend(&text, "  runs revision ", worker.revision.value);
  }
  if (!worker.memory.empty()) {
    absl::StrAppend(&text, "  memory: ", worker.memory);
  }
  if (worker.paused) absl::StrAppend(&text, "  paused");
  if (!worker.busy.empty()) absl::StrAppend(&text, "  busy: ", worker.busy);
  if (IsSilent(worker, view)) absl::StrAppend(&text, "  ", SilentFor(worker));
  return text;
}

std::vector<std::string> WorkerRow(const WorkerView& worker,
                                   const JobView& view) {
  std::vector<std::string> point;
  for (size_t axis = 0; axis < worker.coordinates.size(); ++axis) {
    point.push_back(absl::StrCat(view.spec.mesh.axes[axis].name, "=",
                                 worker.coordinates[axis]));
  }
  // A worker outside an epoch has no position.
  const bool has_rank = worker.rank >= 0;
  const auto if_ranked = [has_rank](const std::string& text) {
    return has_rank ? text : "-";
  };
  return {if_ranked(absl::StrCat(worker.rank)),
          worker.name.value,
          Text(Name(worker.state)),
          absl::StrCat(worker.generation.value),
          if_ranked(absl::StrJoin(point, ",")),
          if_ranked(absl::StrCat(worker.position.step)),
          if_ranked(absl::StrFormat("%.4f", worker.step_seconds)),
          if_ranked(absl::StrFormat("%.4f", worker.exposed_seconds)),
          if_ranked(Text(Name(worker.overlap))),
          absl::StrCat(worker.process.host, ":", worker.process.pid,
                       RemarksOn(worker, view))};
}

std::string WorkersTable(const JobView& view) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "worker", "state", "gen", "mesh", "step", "s/step", "exposed",
       "overlap", "process"}};
  for (const WorkerView& worker : view.workers) {
    rows.push_back(WorkerRow(worker, view));
  }
  return Aligned(rows);
}

std::string BucketsTable(const JobView& view) {
  std::string text;
  for (size_t b = 0; b < view.buckets.size(); ++b) {
    const BucketView& bucket = view.buckets[b];
    absl::StrAppend(
        &text, absl::StrFormat("  %d: %s %s over %s, %d bytes: %s\n", b,
                               Text(Name(bucket.dtype)), Text(Name(bucket.op)),
                               bucket.communicator, bucket.bytes,
                               absl::StrJoin(bucket.parameters, " ")));
  }
  return text;
}

// "12.0 s ago".
std::string AgoText(absl::Duration ago) {
  return ago == absl::InfiniteDuration() ? "before the coordinator began"
                                         : absl::StrCat(Seconds(ago), " ago");
}

std::string CheckpointsText(const CheckpointView& checkpoint) {
  if (checkpoint.empty()) return "";
  std::string text = "\ncheckpoints\n";
  if (checkpoint.committed) {
    absl::StrAppend(&text, "  step ", checkpoint.committed->step,
                    " is committed (attempt ", checkpoint.committed->attempt,
                    "), ", AgoText(checkpoint.committed_ago), "\n");
  }
  if (const std::string saving = SavingText(checkpoint); !saving.empty()) {
    absl::StrAppend(&text, "  ", saving, "\n");
  }
  if (!checkpoint.failure.empty()) {
    absl::StrAppend(&text, "  step ", checkpoint.failed_step, " failed ",
                    AgoText(checkpoint.failed_ago), ": ", checkpoint.failure,
                    "\n");
  }
  return text;
}

}  // namespace

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int Refuse(const absl::Status& status) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    lines.push_back(Printable(line));
  }
  absl::FPrintF(stderr, "lockstepctl: %s\n", absl::StrJoin(lines, "\n"));
  return 1;
}

void Warn(const std::string& line) {
  absl::FPrintF(stderr, "lockstepctl: warning: %s\n", Printable(line));
}

std::string JobsAsText(const std::vector<JobSummary>& jobs) {
  std::vector<std::vector<std::string>> rows = {
      {"job", "state", "epoch", "step", "ready"}};
  for (const JobSummary& job : jobs) {
    rows.push_back({job.name.value, Text(Name(job.state)),
                    absl::StrCat(job.epoch.value), absl::StrCat(job.step),
                    absl::StrCat(job.ready, "/", job.world_size)});
  }
  return Aligned(rows);
}

std::string LimitsAsText(const std::vector<LimitUse>& limits) {
  std::vector<std::vector<std::string>> rows = {
      {"limit", "value", "now", "highest", "refused"}};
  for (const LimitUse& limit : limits) {
    rows.push_back({limit.name, absl::StrCat(limit.value),
                    limit.used ? absl::StrCat(*limit.used) : std::string("-"),
                    absl::StrCat(limit.highest), absl::StrCat(limit.refused)});
  }
  return Aligned(rows);
}

std::string SavingText(const CheckpointView& checkpoint) {
  if (!checkpoint.saving) return "";
  return absl::StrFormat(
      "saves step %d: %s of %s, %s/s", checkpoint.saving_step,
      RoundedSizeText(checkpoint.bytes_done),
      RoundedSizeText(checkpoint.bytes_total),
      RoundedSizeText(static_cast<uint64_t>(checkpoint.bytes_per_second())));
}

std::string CommandAsText(const JobName& job, JobCommand command) {
  const auto follows = [&]() -> absl::string_view {
    switch (command) {
      case JobCommand::kPause:
        return "all ranks will pause after the same step";
      case JobCommand::kResume: return "all ranks go on";
      case JobCommand::kDrain:
        return "all workers will leave after the same step, at once if none "
               "trains; the job stays for workers that come later";
      case JobCommand::kStop:
        return "all workers will leave after the same step, at once if none "
               "trains; then the job is over";
      case JobCommand::kRebuild:
        return "one rank of each group will say in which order its gradients "
               "become ready; new buckets follow if that is another order";
      case JobCommand::kSave:
        return "all ranks will save a checkpoint of the same step, if the "
               "program makes checkpoints; of a paused job after it goes on";
    }
    return "asked";
  };
  return absl::StrCat("job ", job.value, ": ", follows(), "\n");
}

std::string JobAsLine(const JobView& view) {
  std::string line =
      absl::StrFormat("job %s  %s  epoch %d  step %d  %d of %d ready",
                      view.name.value, Text(Name(view.state)), view.epoch.value,
                      view.step, CountReady(view), view.spec.mesh.WorldSize());
  for (const Command command : view.wanted.commands) {
    absl::StrAppend(&line, "  ", WantedText(view, command));
  }
  if (const std::string saving = SavingText(view.checkpoint); !saving.empty()) {
    absl::StrAppend(&line, "  ", saving);
  }
  if (const std::string silent = SilentWorkers(view); !silent.empty()) {
    absl::StrAppend(&line, "  ", silent);
  }
  for (const StallView& stall : view.stalls)
    absl::StrAppend(&line, "  ", stall.text);
  // While the next epoch runs, this cause is history.
  if (view.state != JobState::kRunning && !view.cause.message.empty()) {
    absl::StrAppend(&line, "  ", view.cause.message);
  }
  return line + "\n";
}

std::string JobAsText(const JobView& view) {
  std::string text = JobAsLine(view);
  if (view.state == JobState::kRunning && !view.cause.message.empty()) {
    absl::StrAppend(&text, view.cause.message, "\n");
  }
  absl::StrAppend(&text, "mesh ", ToString(view.spec.mesh), "  revision ",
                  view.revision.value, "  plan ",
                  view.plan_digest.empty() ? "none" : view.plan_digest, "\n\n",
                  WorkersTable(view));
  if (view.missing > 0)
    absl::StrAppend(&text, Count(view.missing, "rank"),
                    view.missing == 1 ? " is" : " are", " still missing\n");
  absl::StrAppend(&text, "\n", Count(view.parameters.size(), "parameter"),
                  " in ", Count(view.buckets.size(), "bucket"), "\n",
                  BucketsTable(view));
  absl::StrAppend(&text, CheckpointsText(view.checkpoint));
  if (!view.waits.empty()) absl::StrAppend(&text, "\nwho waits for whom\n");
  for (const WaitView& wait : view.waits) {
    absl::StrAppend(&text, "  ", wait.waiter.value, " waits for ",
                    wait.waited_for.value, ": ", wait.why, "\n");
  }
  if (!view.lags.empty()) absl::StrAppend(&text, "\nwaited for longest\n");
  for (const LagView& lag : view.lags) {
    absl::StrAppend(&text, absl::StrFormat("  %8.3f s  %s of %s\n", lag.seconds,
                                           lag.parameter, lag.worker.value));
  }
  if (!view.warnings.empty()) absl::StrAppend(&text, "\nwarnings\n");
  for (const std::string& warning : view.warnings) {
    absl::StrAppend(&text, "  ", warning, "\n");
  }
  if (!view.events.empty()) absl::StrAppend(&text, "\nevents\n");
  for (const EventView& event : view.events) {
    absl::StrAppend(&text, "  ", Seconds(event.ago), " ago  ", event.text,
                    "\n");
  }
  return text;
}

}  // namespace lockstep::ctl

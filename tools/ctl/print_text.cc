#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

std::string Text(std::string_view text) { return std::string(text); }

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

int CountReady(const JobView& view) {
  return static_cast<int>(std::count_if(
      view.workers.begin(), view.workers.end(), [](const WorkerView& worker) {
        return worker.state == WorkerState::kReady;
      }));
}

std::string WorkersTable(const JobView& view) {
  std::string text =
      absl::StrFormat("%-5s %-20s %-8s %-4s %-14s %-8s %-9s %-9s %-8s %s\n",
                      "rank", "worker", "state", "life", "mesh", "step",
                      "s/step", "exposed", "overlap", "process");
  for (const WorkerView& worker : view.workers) {
    std::vector<std::string> point;
    for (size_t axis = 0; axis < worker.coordinates.size(); ++axis) {
      point.push_back(absl::StrCat(view.spec.mesh.axes[axis].name, "=",
                                   worker.coordinates[axis]));
    }
    absl::StrAppend(
        &text, absl::StrFormat(
                   "%-5s %-20s %-8s %-4d %-14s %-8d %-9.4f %-9.4f %-8s %s:%d",
                   worker.rank < 0 ? "-" : absl::StrCat(worker.rank),
                   worker.name.value, Text(Name(worker.state)),
                   worker.generation.value, absl::StrJoin(point, ","),
                   worker.position.step, worker.step_seconds,
                   worker.exposed_seconds, Text(Name(worker.overlap)),
                   worker.process.host, worker.process.pid));
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
    absl::StrAppend(&text, "\n");
  }
  return text;
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

}  // namespace

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string JobsAsText(const std::vector<JobSummary>& jobs) {
  std::string text = absl::StrFormat("%-24s %-12s %-6s %-8s %s\n", "job",
                                     "state", "epoch", "step", "ready");
  for (const JobSummary& job : jobs) {
    absl::StrAppend(
        &text, absl::StrFormat("%-24s %-12s %-6d %-8d %d/%d\n", job.name.value,
                               Text(Name(job.state)), job.epoch.value, job.step,
                               job.ready, job.world_size));
  }
  return text;
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
    absl::StrAppend(&line, "  ", Text(Name(command)), " is wanted");
  }
  for (const std::string& stall : view.stalls)
    absl::StrAppend(&line, "  ", stall);
  if (!view.cause.message.empty())
    absl::StrAppend(&line, "  ", view.cause.message);
  return line + "\n";
}

std::string JobAsText(const JobView& view) {
  std::string text = JobAsLine(view);
  absl::StrAppend(&text, "mesh ", ToString(view.spec.mesh), "  revision ",
                  view.revision.value, "  plan ",
                  view.plan_digest.empty() ? "none" : view.plan_digest, "\n\n",
                  WorkersTable(view));
  if (view.missing > 0)
    absl::StrAppend(&text, view.missing, " ranks are still missing\n");
  absl::StrAppend(&text, "\n", view.parameters.size(), " parameters in ",
                  view.buckets.size(), " buckets\n", BucketsTable(view));
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

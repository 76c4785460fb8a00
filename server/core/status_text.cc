#include "server/core/status_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::core {
namespace {

std::string Doing(protocol::Phase phase) {
  switch (phase) {
    case protocol::Phase::kIdle: return "between steps";
    case protocol::Phase::kCompute: return "while computing";
    case protocol::Phase::kTransfer: return "while waiting for transfers";
    case protocol::Phase::kVerdict: return "in the verdict";
  }
  return "in an unknown phase";
}

absl::Duration Grain(absl::Duration duration) {
  if (duration < absl::Seconds(1)) return absl::Milliseconds(1);
  if (duration < absl::Minutes(1)) return absl::Milliseconds(100);
  if (duration < absl::Hours(1)) return absl::Seconds(1);
  return absl::Minutes(1);
}

}  // namespace

std::string Who(const WorkerName& worker, int rank,
                const protocol::ProcessInfo& process) {
  const std::string where =
      absl::StrFormat("host %s, pid %d", process.host, process.pid);
  if (rank < 0) return absl::StrFormat("%s (%s)", worker.value, where);
  return absl::StrFormat("%s (rank %d, %s)", worker.value, rank, where);
}

std::pair<std::string, std::string> TellApart(const protocol::ProcessInfo& a,
                                              const protocol::ProcessInfo& b) {
  const bool look_equal = a.host == b.host && a.pid == b.pid;
  const auto describe = [&](const protocol::ProcessInfo& process) {
    if (process == protocol::ProcessInfo{}) {
      return std::string("no process (pid 0)");
    }
    std::string text =
        absl::StrFormat("host %s, pid %d", process.host, process.pid);
    if (look_equal && a.boot_id != b.boot_id) {
      absl::StrAppend(&text, ", boot id ", process.boot_id);
    }
    if (look_equal && a.start_time != b.start_time) {
      absl::StrAppend(&text, ", started at tick ", process.start_time);
    }
    return text;
  };
  return {describe(a), describe(b)};
}

std::string Where(const protocol::Position& position) {
  return absl::StrFormat("at step %d %s", position.step, Doing(position.phase));
}

std::string LastHeard(const protocol::Position& position, absl::Duration age) {
  if (age < absl::Milliseconds(1)) return Where(position);
  return absl::StrFormat("last reported %s, %s ago", Where(position),
                         HowLong(age));
}

std::string HasBeen(protocol::Phase phase) {
  switch (phase) {
    case protocol::Phase::kIdle: return "has been between steps";
    case protocol::Phase::kCompute: return "has been computing";
    case protocol::Phase::kTransfer: return "has been waiting for transfers";
    case protocol::Phase::kVerdict: return "has been in the verdict";
  }
  return "has been in an unknown phase";
}

std::string HowLong(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, Grain(duration)));
}

std::string NameList(const std::vector<std::string>& names, size_t max) {
  const size_t shown = names.size() > max ? max - 1 : names.size();
  std::string list;
  for (size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == names.size();
    absl::StrAppend(&list, i == 0 ? "" : is_last ? " and " : ", ", names[i]);
  }
  if (shown < names.size()) {
    absl::StrAppend(&list, " and ", names.size() - shown, " more");
  }
  return list;
}

std::string NameList(const std::vector<WorkerName>& names, size_t max) {
  std::vector<std::string> values;
  values.reserve(names.size());
  for (const WorkerName& name : names) values.push_back(name.value);
  return NameList(values, max);
}

std::string AndMore(int ranks) {
  return absl::StrCat("and ", Count(ranks, "more rank"),
                      ranks == 1 ? " is" : " are", " late");
}

absl::Status SameSpec(const JobSpec& job, const JobSpec& brought,
                      const WorkerName& worker) {
  if (job == brought) return absl::OkStatus();
  std::string fields;
  for (const SpecDifference& difference : Differences(job, brought)) {
    absl::StrAppend(&fields, fields.empty() ? "" : "; ", difference.field, ": ",
                    difference.a, " in the job, ", difference.b, " from ",
                    worker.value);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s brings another spec for job %s: %s", worker.value, job.name, fields));
}

}  // namespace lockstep::core

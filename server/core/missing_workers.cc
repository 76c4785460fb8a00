#include "server/core/missing_workers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "spec/elastic.h"

namespace lockstep::core {
namespace {

// Longer lists are shortened to ranges.
constexpr size_t kNamesInFull = 64;

// "worker-12" split into its prefix and its number.
struct Numbered {
  std::string prefix;
  int number = 0;
};

std::optional<Numbered> ParseNumbered(const std::string& name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string::npos) return std::nullopt;
  Numbered numbered{.prefix = name.substr(0, dash + 1)};
  const std::string digits = name.substr(dash + 1);
  if (!absl::SimpleAtoi(digits, &numbered.number) || numbered.number < 0 ||
      absl::StrCat(numbered.number) != digits) {
    return std::nullopt;
  }
  return numbered;
}

// The missing numbers of PREFIX-0 ... PREFIX-(world-1), or of PREFIX-1 ...
// PREFIX-world if the present names fit only that.
std::vector<std::string> InferFromNumbers(const std::set<WorkerName>& arrived,
                                          int world) {
  std::set<int> numbers;
  std::string prefix;
  for (const WorkerName& worker : arrived) {
    const auto numbered = ParseNumbered(worker.value);
    if (!numbered) return {};
    if (!numbers.empty() && numbered->prefix != prefix) return {};
    prefix = numbered->prefix;
    numbers.insert(numbered->number);
  }
  if (numbers.empty()) return {};
  const int first = *numbers.rbegin() == world ? 1 : 0;
  if (*numbers.begin() < first || *numbers.rbegin() >= first + world) return {};

  std::vector<std::string> missing;
  for (int number = first; number < first + world; ++number) {
    if (numbers.count(number) == 0) {
      missing.push_back(absl::StrCat(prefix, number));
    }
  }
  return missing;
}

bool FollowsInNumber(const std::string& a, const std::string& b) {
  const auto first = ParseNumbered(a);
  const auto second = ParseNumbered(b);
  return first && second && first->prefix == second->prefix &&
         second->number == first->number + 1;
}

std::string ListEveryOne(const std::vector<std::string>& names) {
  if (names.size() <= kNamesInFull) return absl::StrJoin(names, ", ");
  std::vector<std::string> runs;
  for (size_t begin = 0; begin < names.size();) {
    size_t end = begin + 1;
    while (end < names.size() && FollowsInNumber(names[end - 1], names[end])) {
      ++end;
    }
    runs.push_back(end - begin == 1
                       ? names[begin]
                       : absl::StrCat(names[begin], " to ", names[end - 1]));
    begin = end;
  }
  return absl::StrJoin(runs, ", ");
}

}  // namespace

std::vector<std::string> MissingWorkers(
    const JobSpec& spec, const std::set<WorkerName>& arrived,
    const std::vector<protocol::Member>& previous) {
  const int world = spec.mesh.WorldSize();
  std::vector<std::string> missing;
  const auto add_if_absent = [&](const std::string& name) {
    if (arrived.count(WorkerName{name}) == 0) missing.push_back(name);
  };
  if (!spec.workers.empty()) {
    for (const std::string& name : spec.workers) add_if_absent(name);
  } else if (!previous.empty()) {
    for (const auto& member : previous) add_if_absent(member.worker.value);
  } else {
    missing = InferFromNumbers(arrived, world);
  }
  return missing;
}

std::string DescribeMissing(const JobSpec& spec,
                            const std::set<WorkerName>& arrived,
                            const std::vector<protocol::Member>& previous) {
  const int world = spec.mesh.WorldSize();
  const int absent = std::max(0, world - static_cast<int>(arrived.size()));
  std::string text = absl::StrFormat("%d of %d workers %s missing", absent,
                                     world, absent == 1 ? "is" : "are");
  const auto names = MissingWorkers(spec, arrived, previous);
  if (!names.empty()) absl::StrAppend(&text, ": ", ListEveryOne(names));
  // Those beyond the previous epoch's members have no names yet.
  const int unnamed = absent - static_cast<int>(names.size());
  if (!names.empty() && unnamed > 0) {
    absl::StrAppend(&text, ", and ", unnamed, " more");
  }
  if (!spec::IsElastic(spec)) return text;
  const int replica = spec::WorkersPerReplica(spec);
  absl::StrAppend(&text, "; it runs with ", spec::WorkersMin(spec), " or more");
  if (replica > 1) {
    absl::StrAppend(&text, ", by whole replicas of ", replica);
  }
  return text;
}

}  // namespace lockstep::core

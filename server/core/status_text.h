// Phrases for messages to people: a worker, its position, durations, lists.

#ifndef LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_
#define LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/text/count.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::core {

// "worker-3 (rank 3, host a, pid 123)"; without a rank if it is below 0.
std::string Who(const WorkerName& worker, int rank,
                const protocol::ProcessInfo& process);

// "host a, pid 123" for each. If these are equal, also what differs: the
// kernel's boot id (two hosts of one name, or a reboot), or the process's start
// time in clock ticks since boot (another container, for example).
std::pair<std::string, std::string> TellApart(const protocol::ProcessInfo& a,
                                              const protocol::ProcessInfo& b);

// "at step 412 while computing".
std::string Where(const protocol::Position& position);

// The same with its age, if any: "last reported at step 412 while computing,
// 800ms ago".
std::string LastHeard(const protocol::Position& position, absl::Duration age);

// What a rank has been doing in that phase: "has been computing".
std::string HasBeen(protocol::Phase phase);

// "850ms", "12.3s", "4m5s": at most two units, rounded down.
std::string HowLong(absl::Duration duration);

// "a", "a and b", "a, b and c"; more than `max` as "a, b and 7 more".
std::string NameList(const std::vector<std::string>& names, size_t max = 20);
std::string NameList(const std::vector<WorkerName>& names, size_t max = 20);

// The most late ranks that are named at a time.
inline constexpr int kBlamed = 8;
// "and 4 more ranks are late".
std::string AndMore(int ranks);

// InvalidArgument that lists every field in which `brought` differs from the
// job's spec, with both values; OK if none does.
absl::Status SameSpec(const JobSpec& job, const JobSpec& brought,
                      const WorkerName& worker);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_

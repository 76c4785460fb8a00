// The phrases of which messages to people are made: who, where, since when.

#ifndef LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_
#define LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "plan/words/ids.h"
#include "plan/words/protocol.h"

namespace lockstep::core {

// "worker-3 (rank 3, host a, pid 123)"; without a rank if it is below 0.
std::string Who(const WorkerName& worker, int rank,
                const protocol::ProcessInfo& process);

// "host a, pid 123" of each. If that is equal, also what differs: the kernel's
// boot id (two hosts of one name, or one that was started anew), or the clock
// tick since boot at which the process started (in another container, say).
std::pair<std::string, std::string> TellApart(const protocol::ProcessInfo& a,
                                              const protocol::ProcessInfo& b);

// "at step 412 while computing".
std::string Where(const protocol::Position& position);

// The same, and its age if it has one: "last heard at step 412 while computing,
// 800ms ago".
std::string LastHeard(const protocol::Position& position, absl::Duration age);

// What a rank in that phase is doing for a while: "has been computing".
std::string HasBeen(protocol::Phase phase);

// "850ms", "12.3s", "4m5s": two units at most, rounded down.
std::string HowLong(absl::Duration duration);

// "a", "a and b", "a, b and c"; from `max` on "a, b and 7 more".
std::string NameList(const std::vector<std::string>& names, size_t max = 20);
std::string NameList(const std::vector<WorkerName>& names, size_t max = 20);

// Of all ranks that others wait for, so many are named at a time.
inline constexpr int kBlamed = 8;
// "and 4 more ranks are late".
std::string AndMore(int ranks);

// "1 rank", "4 ranks".
std::string Count(int64_t n, const std::string& noun);

// InvalidArgument that lists every field in which `brought` differs from the
// job's spec, with both values; OK if none does.
absl::Status SameSpec(const JobSpec& job, const JobSpec& brought,
                      const WorkerName& worker);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_STATUS_TEXT_H_

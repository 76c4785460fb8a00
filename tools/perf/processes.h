// Starts a process for each rank, and exchanges the ranks' handles, as a
// coordinator would.
//
// Threads: the process must have a single thread.

#ifndef LOCKSTEP_TOOLS_PERF_PROCESSES_H_
#define LOCKSTEP_TOOLS_PERF_PROCESSES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::perf {

// Exchanges handles with the other ranks.
class HandlePipes {
 public:
  explicit HandlePipes(int socket) : socket_(socket) {}

  // Sends this rank's line, which must not be empty, and returns the lines of
  // all ranks in rank order. Collective. Unavailable if another rank has ended.
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& own,
                                                    int ranks);

 private:
  const int socket_;
};

// Runs `rank_main` in `ranks` processes and waits for all. Returns 0 if each
// returned 0, else 1. Must be called while the process has one thread.
int RunRanks(int ranks,
             const std::function<int(int rank, HandlePipes&)>& rank_main);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_PROCESSES_H_

// Starts a process for each rank, and passes the ranks' handles among them, as
// a coordinator would.
//
// Threads: none may have been started before.

#ifndef LOCKSTEP_TOOLS_PERF_PROCESSES_H_
#define LOCKSTEP_TOOLS_PERF_PROCESSES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::perf {

// A rank's way to the others' handles.
class HandlePipes {
 public:
  explicit HandlePipes(int socket) : socket_(socket) {}

  // Gives this rank's line, not empty; all ranks' in their order. Every rank
  // must. Unavailable if another rank has ended.
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& own,
                                                    int ranks);

 private:
  const int socket_;
};

// Runs `rank_main` in `ranks` processes and waits for all: 0 if each returned
// 0, else 1. Must be called while there is one thread.
int RunRanks(int ranks,
             const std::function<int(int rank, HandlePipes&)>& rank_main);

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_PROCESSES_H_

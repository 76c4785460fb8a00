// A child process: its output pipe, its exit status, and its cleanup.
//
// A child leads its own process group, so Ctrl-C in the terminal reaches it
// only through its launcher. The kernel kills it if the launcher dies first.
//
// Threads: one thread uses a Child. The thread that calls Start must live as
//          long as the child, because the kernel's death signal is tied to it.

#ifndef LOCKSTEP_TOOLS_LAUNCH_CHILD_H_
#define LOCKSTEP_TOOLS_LAUNCH_CHILD_H_

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::launch {

struct ChildCommand {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  // Added to the launcher's environment; replaces variables of the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  bool capture_output = false;          // stdout and stderr go to output()
  bool quiet_stdout = false;            // discards stdout
  std::optional<cpu_set_t> cores = {};  // on which it may run; or as here
};

// How a process ended.
struct ProcessExit {
  int code = 0;    // exit code; 128 + signal if it was killed
  int signal = 0;  // 0: it exited by itself
  // When the process started (base/process.h); distinguishes reused pids.
  uint64_t start_time = 0;
  // Why the supervisor sent the signal that killed the process; empty if it did
  // not.
  std::string why_signalled;
  bool ok() const { return code == 0; }
};

// "exited with code 3", "killed by signal 9 (Killed)", "killed by signal 9
// (Killed), sent by its launcher: it had not ended 10s after SIGTERM".
std::string Describe(const ProcessExit& ending);

class Child {
 public:
  // Errors: NotFound or PermissionDenied with the program's name if it cannot
  // run; ResourceExhausted if the system lacks resources.
  static absl::StatusOr<Child> Start(const ChildCommand& command);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Kills the process group if it still runs, and reaps the child.
  ~Child();

  pid_t pid() const { return pid_; }
  // Non-blocking read end of the child's output; -1 if it is not captured, or
  // at its end.
  int output() const { return output_; }
  void CloseOutput();

  // Signals the whole process group. No effect if the child has ended.
  void Signal(int signal);

  // The exit of the child, if it has ended. Never blocks.
  const std::optional<ProcessExit>& Poll();
  // As Poll, but blocks until the child has ended.
  ProcessExit Wait();

 private:
  Child(pid_t pid, int output);
  void Collect(int status);

  pid_t pid_ = -1;
  uint64_t start_time_ = 0;
  int output_ = -1;
  std::optional<ProcessExit> ending_;
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_CHILD_H_

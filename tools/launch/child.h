// A process that we started: its pipe, its end, and nothing left behind.
//
// A child leads a process group of its own, so that a Ctrl-C in the terminal
// reaches it once, through us; and the kernel kills it if we die first.
//
// Threads: one thread uses a Child. Start must be called from a thread that
//          lives as long as the child should (the kernel watches the thread).

#ifndef LOCKSTEP_TOOLS_LAUNCH_CHILD_H_
#define LOCKSTEP_TOOLS_LAUNCH_CHILD_H_

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
  // Added to our own environment, replacing what has the same name.
  std::vector<std::pair<std::string, std::string>> environment;
  bool capture_output = false;  // stdout and stderr go to output()
  bool quiet_stdout = false;    // stdout goes nowhere
};

// How a process ended.
struct ProcessExit {
  int code = 0;    // of exit; 128 + signal if it was killed
  int signal = 0;  // 0: it exited by itself
  // When the process started (base/process.h): which of those with its pid.
  uint64_t start_time = 0;
  // Why the supervisor sent the signal that killed it; empty: it did not.
  std::string why_signalled;
  bool ok() const { return code == 0; }
};

// "exited with code 3", "killed by signal 9 (Killed)", "killed by signal 9
// (Killed), sent by its launcher: it had not ended 10s after SIGTERM".
std::string Describe(const ProcessExit& ending);

class Child {
 public:
  // NotFound or PermissionDenied with the program's name if it cannot run;
  // ResourceExhausted if the system has no room for it.
  static absl::StatusOr<Child> Start(const ChildCommand& command);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Kills the group if it still runs, and collects it.
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable end of its output, non-blocking; -1 if it is not captured or over.
  int output() const { return output_; }
  void CloseOutput();

  // To its whole group. Nothing happens if it has ended.
  void Signal(int signal);

  // How it ended, if it has. Never blocks.
  const std::optional<ProcessExit>& Poll();
  // Blocks.
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

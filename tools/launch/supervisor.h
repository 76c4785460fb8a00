// Runs a set of named children to their end, on the calling thread.
//
//   SIGINT, SIGTERM, SIGHUP ──▶ forwarded; again, or after `grace`: SIGKILL
//   a child ends ─────────────▶ on_ending (a launcher reports it as evidence)
//   one ends badly ───────────▶ the others may end by themselves for `grace`,
//                               then get SIGTERM, then SIGKILL
//   all have ended ───────────▶ on_workers_ended, which may start others
//   instead output ───────────────────▶ on_output, a line at a time
//
// While Run is on, the three signals are blocked and read by it; SIGCHLD too.
//
// Threads: everything happens in Run, on its caller.

#ifndef LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_
#define LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_

#include <signal.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/launch/child.h"

namespace lockstep::launch {

struct SupervisorOptions {
  absl::Duration grace = absl::Seconds(10);
  // Called as each child ends, in the order of their ends. The ending of one
  // that this supervisor has ended says why.
  std::function<void(const std::string& name, pid_t pid, const ProcessExit&)>
      on_ending;
  // Called when no worker is left, before background children are ended, and
  // not after a signal was forwarded; `failure` is the code of the first worker
  // that ended badly, or 0. Workers that it starts take the place of those
  // before, whose failure does not count any more. If it starts none and
  // returns more than zero, it is called again after that time; the failure
  // counts as long as there are no others.
  std::function<absl::Duration(int failure)> on_workers_ended;
  // Lines of children whose output is captured, without the newline.
  std::function<void(const std::string& name, absl::string_view line)>
      on_output;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // A background child (a daemon) is ended, with SIGTERM, once all others have
  // ended; its ending counts only if it comes before theirs.
  enum class Role { kWorker, kBackground };
  absl::Status Start(const std::string& name, const ChildCommand& command,
                     Role role = Role::kWorker);

  // Blocks until every child has ended. The code to exit with: 0 if all workers
  // ended well, 128 + the signal that was forwarded, else the code of the first
  // that did not.
  int Run();

  // Has the child of that name ended?
  bool Ended(const std::string& name);

  // Sends a signal to the child of that name. False if it has ended.
  bool Signal(const std::string& name, int signal);

  // What was forwarded, or 0.
  int interrupted_by() const { return interrupted_by_; }

 private:
  struct Entry {
    std::string name;
    Child child;
    Role role;
    std::string partial_line;
    bool ended = false;
    std::map<int, std::string> sent;  // signals, and why they were sent
  };

  void TakeSignals();
  void TakeOutput(Entry& entry);
  void TakeEndings();
  bool ReplaceWorkers();
  void NoteEnding(Entry& entry, const ProcessExit& ending);
  void EnforceDeadlines(absl::Time now);
  void SignalAll(int signal, const std::string& why);
  ProcessExit EndingOf(Entry& entry);
  void WaitForSomething();
  bool WorkersEnded() const;
  bool AllEnded() const;

  const SupervisorOptions options_;
  std::vector<Entry> entries_;
  int signals_ = -1;  // a signalfd
  sigset_t mask_before_;
  int interrupted_by_ = 0;
  int first_failure_ = 0;
  bool background_told_ = false;  // that it is to end
  absl::Time terminate_at_ = absl::InfiniteFuture();
  std::string why_terminate_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  std::string why_kill_;
  absl::Time ask_again_at_ = absl::InfiniteFuture();  // on_workers_ended
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_

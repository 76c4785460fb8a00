// Runs named child processes until all have ended, on the calling thread.
//
//   SIGINT, SIGTERM, SIGHUP ─▶ forwarded, once may_forward allows it; again, or
//                              after `grace`: SIGKILL
//   a child ends ────────────▶ on_ending (a launcher reports it as evidence),
//                              which may start the worker again, or go on
//                              without it: then the failure does not count,
//                              and the others run on
//   a failure counts ────────▶ the others may end by themselves for `grace`,
//                              then get SIGTERM, then SIGKILL
//   output ──────────────────▶ on_output, line by line
//
// During Run, SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked, and Run reads
// them.
//
// Threads: Run does everything, on its calling thread.

#ifndef LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_
#define LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_

#include <signal.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/launch/child.h"

namespace lockstep::launch {

struct SupervisorOptions {
  absl::Duration grace = absl::Seconds(10);
  // Called when a child ends, in the order in which they end. If the supervisor
  // ended the child, ProcessExit::why_signalled has the reason.
  std::function<void(const std::string& name, pid_t pid, const ProcessExit&)>
      on_ending;
  // Called when a signal has arrived, and then every tenth of a second until it
  // returns true or another signal arrives: the first is forwarded then.
  std::function<bool(int signal)> may_forward;
  // Called if a worker cannot be started again when that is due.
  std::function<void(const std::string& name, const absl::Status&)>
      on_not_started;
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

  // A background child (a daemon) gets SIGTERM once all others have ended. Its
  // exit status counts only if it ends before them.
  enum class Role { kWorker, kBackground };
  absl::Status Start(const std::string& name, const ChildCommand& command,
                     Role role = Role::kWorker);

  // Starts a worker that has ended once more, after `pause`; until then it
  // counts as running. Called from on_ending, its failure does not count,
  // unless it cannot be started then. No effect while Ending().
  void StartAgain(const std::string& name, ChildCommand command,
                  absl::Duration pause);

  // Called from on_ending: the failure of this child does not count, and the
  // others run on without it. StartAgain may follow at any time.
  void Forgive(const std::string& name);

  // Whether the workers are to end: a signal was forwarded, or a failure
  // counts.
  bool Ending() const;

  // Blocks until every child has ended. Returns the exit code for the program:
  // 0 if all workers succeeded, 128 + the forwarded signal, else the code of
  // the first worker whose failure counts.
  int Run();

  // Whether the child of that name has ended, or waits for its next start.
  bool Ended(const std::string& name);

  // Sends a signal to the child of that name. False if the child has ended.
  bool Signal(const std::string& name, int signal);

  // The signal that was forwarded, or 0.
  int interrupted_by() const { return interrupted_by_; }

 private:
  struct NextStart {
    ChildCommand command;
    absl::Time at;
  };
  struct Entry {
    std::string name;
    Child child;
    Role role;
    std::string partial_line;
    bool ended = false;
    bool forgiven = false;
    std::map<int, std::string> sent;  // signals, and why they were sent
    std::optional<NextStart> next_start;
  };

  void TakeSignals();
  void ForwardIfAllowed();
  void Forward();
  void TakeOutput(Entry& entry);
  void TakeEndings();
  void NoteEnding(Entry& entry, const ProcessExit& ending);
  void CountFailure(const Entry& entry, const ProcessExit& ending);
  void StartThoseDue(absl::Time now);
  void StartNow(Entry& entry);
  void CancelStarts();
  void EnforceDeadlines(absl::Time now);
  void SignalWorkers(int signal, const std::string& why);
  ProcessExit EndingOf(Entry& entry);
  void WaitForSomething();
  bool WorkersEnded() const;
  bool AllEnded() const;

  const SupervisorOptions options_;
  std::vector<Entry> entries_;
  int signals_ = -1;  // a signalfd
  sigset_t mask_before_;
  int interrupted_by_ = 0;
  bool held_back_ = false;  // that signal is not forwarded yet
  int first_failure_ = 0;
  bool background_told_ = false;  // whether it got SIGTERM
  absl::Time terminate_at_ = absl::InfiniteFuture();
  std::string why_terminate_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  std::string why_kill_;
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_SUPERVISOR_H_

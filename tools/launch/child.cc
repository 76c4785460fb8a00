#include "tools/launch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process.h"

namespace lockstep::launch {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pipe: ", strerror(errno)));
  }
  return Pipe{ends[0], ends[1]};
}

std::vector<std::string> MergedEnvironment(const ChildCommand& command) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      merged[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : command.environment) merged[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : merged)
    lines.push_back(absl::StrCat(name, "=", value));
  return lines;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings)
    pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The descriptors of the new process's output; -1: inherited.
struct Redirection {
  int out = -1;
  int err = -1;
};

// Runs in the new process between fork and exec: async-signal-safe calls only.
// Reports a failure through `report`; exec closes it.
[[noreturn]] void BecomeProgram(pid_t parent, char* const argv[],
                                char* const environment[],
                                const Redirection& redirect,
                                const std::optional<cpu_set_t>& cores,
                                int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (redirect.out >= 0) dup2(redirect.out, STDOUT_FILENO);
  if (redirect.err >= 0) dup2(redirect.err, STDERR_FILENO);
  if (!cores || sched_setaffinity(0, sizeof *cores, &*cores) == 0) {
    execvpe(argv[0], argv, environment);
  }
  const int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

absl::Status ExecError(const std::string& program, int error) {
  const std::string message = absl::StrCat(program, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES) return absl::PermissionDeniedError(message);
  return absl::ResourceExhaustedError(message);
}

}  // namespace

std::string Describe(const ProcessExit& ending) {
  if (ending.signal == 0)
    return absl::StrFormat("exited with code %d", ending.code);
  const std::string killed = absl::StrFormat(
      "killed by signal %d (%s)", ending.signal, strsignal(ending.signal));
  if (ending.why_signalled.empty()) return killed;
  return absl::StrCat(killed, ", sent by its launcher: ", ending.why_signalled);
}

absl::StatusOr<Child> Child::Start(const ChildCommand& command) {
  const std::vector<std::string> environment = MergedEnvironment(command);
  const std::vector<char*> argv = Pointers(command.argv);
  const std::vector<char*> envp = Pointers(environment);

  Pipe output;
  if (command.capture_output) {
    absl::StatusOr<Pipe> made = MakePipe();
    if (!made.ok()) return made.status();
    output = *made;
    fcntl(output.read, F_SETFL, O_NONBLOCK);
  }
  Redirection redirect{.out = output.write, .err = output.write};
  if (command.quiet_stdout)
    redirect.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
  absl::StatusOr<Pipe> report = MakePipe();
  if (!report.ok()) return report.status();

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeProgram(parent, argv.data(), envp.data(), redirect, command.cores,
                  report->write);
  }
  const int fork_error = errno;
  close(report->write);
  if (redirect.out >= 0) close(redirect.out);
  if (redirect.err >= 0 && redirect.err != redirect.out) close(redirect.err);
  Child child(pid, output.read);
  int error = 0;
  const bool failed = pid < 0 || read(report->read, &error, sizeof error) > 0;
  close(report->read);
  if (!failed) return child;
  if (pid < 0) return ExecError(command.argv[0], fork_error);
  child.Wait();
  return ExecError(command.argv[0], error);
}

// The pid cannot be reused before the child is reaped.
Child::Child(pid_t pid, int output)
    : pid_(pid), start_time_(pid > 0 ? StartTimeOf(pid) : 0), output_(output) {}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      start_time_(other.start_time_),
      output_(std::exchange(other.output_, -1)),
      ending_(other.ending_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(start_time_, other.start_time_);
  std::swap(output_, other.output_);
  std::swap(ending_, other.ending_);
  return *this;
}

Child::~Child() {
  if (pid_ > 0 && !ending_) {
    Signal(SIGKILL);
    Wait();
  }
  CloseOutput();
}

void Child::CloseOutput() {
  if (output_ >= 0) close(std::exchange(output_, -1));
}

void Child::Signal(int signal) {
  if (pid_ > 0 && !Poll()) kill(-pid_, signal);
}

const std::optional<ProcessExit>& Child::Poll() {
  int status = 0;
  if (pid_ > 0 && !ending_ && waitpid(pid_, &status, WNOHANG) == pid_)
    Collect(status);
  return ending_;
}

ProcessExit Child::Wait() {
  int status = 0;
  while (!ending_) {
    if (waitpid(pid_, &status, 0) == pid_) Collect(status);
  }
  return *ending_;
}

void Child::Collect(int status) {
  // Processes that the child started and left behind end with it.
  kill(-pid_, SIGKILL);
  if (WIFSIGNALED(status)) {
    ending_ = ProcessExit{.code = 128 + WTERMSIG(status),
                          .signal = WTERMSIG(status),
                          .start_time = start_time_};
  } else {
    ending_ =
        ProcessExit{.code = WEXITSTATUS(status), .start_time = start_time_};
  }
}

}  // namespace lockstep::launch

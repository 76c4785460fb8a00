#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr int kPatienceMilliseconds = 60'000;

}  // namespace

Program::Program(const std::vector<std::string>& command)
    : errors_(memfd_create("stderr", MFD_CLOEXEC)) {
  int in[2];
  int out[2];
  Check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
            errors_.valid(),
        "no pipe to a child");
  const FileDescriptor read_end(in[0]);
  input_ = FileDescriptor(in[1]);
  output_ = FileDescriptor(out[0]);
  const FileDescriptor write_end(out[1]);
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);

  pid_ = fork();
  Check(pid_ >= 0, "no child process");
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(read_end.get(), STDIN_FILENO);
  dup2(write_end.get(), STDOUT_FILENO);
  dup2(errors_.get(), STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

Program::~Program() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::Signal(int signal) {
  if (!ended_) kill(pid_, signal);
}

void Program::Stop() {
  Signal(SIGSTOP);
  int status = 0;
  Check(waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status),
        "a program ended instead of stopping");
}

void Program::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  Check(write(input_.get(), text.data(), text.size()) ==
            static_cast<ssize_t>(text.size()),
        "a program does not read its input");
}

std::string Program::ReadLine() {
  size_t newline = 0;
  while ((newline = read_ahead_.find('\n')) == std::string::npos) {
    char bytes[4096];
    const ssize_t got = read(output_.get(), bytes, sizeof bytes);
    if (got <= 0) return std::exchange(read_ahead_, "");
    read_ahead_.append(bytes, got);
  }
  std::string line = read_ahead_.substr(0, newline);
  read_ahead_.erase(0, newline + 1);
  return line;
}

std::string Program::ReadAll() {
  std::string all;
  while (true) {
    const std::string line = ReadLine();
    if (line.empty() && read_ahead_.empty()) return all;
    all += line + "\n";
  }
}

std::string Program::Errors() const {
  struct stat file {};
  fstat(errors_.get(), &file);
  std::string text(file.st_size, '\0');
  const ssize_t got = pread(errors_.get(), text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : got);
  return text;
}

int Program::Wait() {
  if (ended_) return result_;
  const FileDescriptor handle(
      static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended{.fd = handle.get(), .events = POLLIN};
  if (poll(&ended, 1, kPatienceMilliseconds) != 1) {
    ADD_FAILURE() << "process " << pid_ << " does not end; it wrote:\n"
                  << Errors();
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = true;
  result_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result_;
}

}  // namespace lockstep

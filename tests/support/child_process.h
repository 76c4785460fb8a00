// A program that a test runs beside itself, and talks to by lines.
//
//   ChildProcess child({"/path/program", "argument"});
//   child.Say("hello");
//   EXPECT_EQ(child.Hear(), "hello yourself");
//   child.Stop();  // SIGSTOP, and waits until it has stopped
//
// Killed and waited for when destroyed. Its standard error is the test's.

#ifndef LOCKSTEP_TESTS_SUPPORT_CHILD_PROCESS_H_
#define LOCKSTEP_TESTS_SUPPORT_CHILD_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/check.h"

namespace lockstep {

class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command) {
    int in[2];
    int out[2];
    Check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int error =
        posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    Check(error == 0, "the child could not be started");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~ChildProcess() {
    Kill();
    close(to_);
    close(from_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Say(const std::string& line) {
    const std::string text = line + "\n";
    Check(write(to_, text.data(), text.size()) ==
              static_cast<ssize_t>(text.size()),
          "the child does not listen");
  }

  // Its next line; empty when it has ended.
  std::string Hear() {
    std::string line;
    for (char c; read(from_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  void Stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    Check(waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status),
          "the child ended instead of stopping");
  }

  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_CHILD_PROCESS_H_

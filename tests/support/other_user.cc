#include "tests/support/other_user.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

constexpr uid_t kFirstUser = 20'000;
constexpr int kNotChanged = 126;
constexpr int kNotRun = 127;

bool Become(uid_t user) {
  return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 &&
         setresuid(user, user, user) == 0;
}

std::string ContentsOf(const FileDescriptor& file) {
  struct stat found {};
  Check(fstat(file.get(), &found) == 0, "a memfd has a size");
  std::string text(static_cast<size_t>(found.st_size), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

int ExitOf(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

bool CanBeAnotherUser() { return geteuid() == 0; }

uid_t FreeUser() {
  uid_t user = kFirstUser;
  while (getpwuid(user) != nullptr) ++user;
  return user;
}

UserOutcome RunAs(uid_t user, std::vector<std::string> command,
                  const std::vector<std::string>& environment) {
  const FileDescriptor image(open(command[0].c_str(), O_RDONLY | O_CLOEXEC));
  Check(image.valid(), "the program exists");
  const FileDescriptor output(memfd_create("output", 0));
  std::vector<char*> words, variables;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  for (const std::string& variable : environment) {
    variables.push_back(const_cast<char*>(variable.c_str()));
  }
  variables.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(output.get(), STDOUT_FILENO);
    dup2(output.get(), STDERR_FILENO);
    if (!Become(user)) _exit(kNotChanged);
    fexecve(image.get(), words.data(), variables.data());
    _exit(kNotRun);
  }
  UserOutcome outcome{.code = ExitOf(pid)};
  EXPECT_NE(outcome.code, kNotChanged);
  EXPECT_NE(outcome.code, kNotRun);
  outcome.output = ContentsOf(output);
  return outcome;
}

int CallAs(uid_t user, const std::function<int()>& act) {
  const pid_t pid = fork();
  if (pid == 0) _exit(Become(user) ? act() : kNotChanged);
  const int code = ExitOf(pid);
  EXPECT_NE(code, kNotChanged);
  return code == kNotChanged ? -1 : code;
}

}  // namespace lockstep

// Limits the number of files that this process may open.

#ifndef LOCKSTEP_TESTS_SUPPORT_FD_LIMIT_H_
#define LOCKSTEP_TESTS_SUPPORT_FD_LIMIT_H_

#include <sys/resource.h>
#include <unistd.h>

namespace lockstep {

// While it exists, this process can open at most `more` further descriptors.
class FdLimit {
 public:
  explicit FdLimit(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDIN_FILENO);  // the lowest free one
    close(next);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next + more);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FdLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  FdLimit(const FdLimit&) = delete;
  FdLimit& operator=(const FdLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FD_LIMIT_H_

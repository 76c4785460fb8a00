// Threads of the library's own: named, and deaf to signals. And how the library
// behaves on a thread of the program's.
//
// The program's signal handlers run on the program's threads, and a write to a
// broken connection is an error to handle, not a SIGPIPE that ends the process.
// Signals that say "this thread has a bug" are not blocked.

#ifndef LOCKSTEP_BASE_THREAD_H_
#define LOCKSTEP_BASE_THREAD_H_

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <string>
#include <thread>
#include <utility>

namespace lockstep {

// Blocks signals on the calling thread, and on threads it starts, while alive.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (int fault :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// A write to a broken connection on the calling thread, whosever it is, returns
// EPIPE and leaves no signal behind, while alive. For libraries whose writes
// cannot be told MSG_NOSIGNAL.
//
// A SIGPIPE that another process sends in the meantime is lost, too.
class BrokenPipesQuiet {
 public:
  BrokenPipesQuiet() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before);
    blocks_ = sigismember(&before, SIGPIPE) == 0;
  }
  ~BrokenPipesQuiet() {
    if (!blocks_) return;  // so does the thread; nothing is delivered
    constexpr timespec kNow{};
    while (sigtimedwait(&sigpipe_, nullptr, &kNow) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_UNBLOCK, &sigpipe_, nullptr);
  }
  BrokenPipesQuiet(const BrokenPipesQuiet&) = delete;
  BrokenPipesQuiet& operator=(const BrokenPipesQuiet&) = delete;

 private:
  sigset_t sigpipe_;
  bool blocks_ = false;  // and was not blocked before
};

// `name` is shown by ps and debuggers; cut to the kernel's 15 bytes.
template <typename F>
std::thread StartThread(const std::string& name, F run) {
  SignalsBlocked blocked;
  return std::thread(
      [name = name.substr(0, 15), run = std::move(run)]() mutable {
        pthread_setname_np(pthread_self(), name.c_str());
        run();
      });
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_THREAD_H_

// Threads of the library: named, with signals blocked. Also guards for library
// code on the program's threads.
//
// The program's signal handlers run on the program's threads. A write to a
// broken connection is an error to handle, not a SIGPIPE that ends the process.
// Signals that report a fault of the thread (SIGSEGV, ...) are not blocked.

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

// While alive, a write to a broken connection on the calling thread returns
// EPIPE and leaves no pending signal. For libraries whose writes cannot use
// MSG_NOSIGNAL, also on the program's threads.
//
// A SIGPIPE that another process sends in the meantime is lost.
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
    if (!blocks_) return;  // the thread blocks SIGPIPE already
    constexpr timespec kNow{};
    while (sigtimedwait(&sigpipe_, nullptr, &kNow) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_UNBLOCK, &sigpipe_, nullptr);
  }
  BrokenPipesQuiet(const BrokenPipesQuiet&) = delete;
  BrokenPipesQuiet& operator=(const BrokenPipesQuiet&) = delete;

 private:
  sigset_t sigpipe_;
  bool blocks_ = false;  // SIGPIPE, which was not blocked before
};

// ps and debuggers show `name`, cut to the kernel's 15 bytes.
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

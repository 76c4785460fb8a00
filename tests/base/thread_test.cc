// Which signals threads receive.

#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

int heard = 0;

// Counts the SIGPIPEs that are delivered during its lifetime.
class Ear {
 public:
  Ear() {
    heard = 0;
    struct sigaction counts {};
    counts.sa_handler = [](int) { ++heard; };
    sigaction(SIGPIPE, &counts, &before_);
  }
  ~Ear() { sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// The error of a write to a connection whose other end is closed.
int WriteToTheDead() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  close(ends[1]);
  const bool written = write(ends[0], "x", 1) == 1;
  const int error = errno;
  close(ends[0]);
  return written ? 0 : error;
}

bool Blocked() {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, SIGPIPE) == 1;
}

TEST(BrokenPipesQuietTest, AWriteToABrokenConnectionIsAnErrorOnly) {
  const Ear ear;
  EXPECT_EQ(WriteToTheDead(), EPIPE);
  EXPECT_EQ(heard, 1) << "without it";
  {
    const BrokenPipesQuiet quiet;
    EXPECT_EQ(WriteToTheDead(), EPIPE);
    const BrokenPipesQuiet within;
    EXPECT_EQ(WriteToTheDead(), EPIPE);
  }
  EXPECT_FALSE(Blocked());
  EXPECT_EQ(heard, 1) << "nothing is left behind";
  EXPECT_EQ(WriteToTheDead(), EPIPE);
  EXPECT_EQ(heard, 2) << "and nothing is changed";
}

TEST(BrokenPipesQuietTest, LeavesAThreadThatHearsNoSignalsAsItIs) {
  bool blocked = false;
  StartThread("deaf", [&] {
    { const BrokenPipesQuiet quiet; }
    blocked = Blocked();
  }).join();
  EXPECT_TRUE(blocked);
}

}  // namespace
}  // namespace lockstep

// A process watches another one, which ends in different ways.

#include <signal.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/transport/shm/local_process_watch.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep::transport {
namespace {

// This process watches watch_peer, which watches this one, so that it greets.
class ProcessWatchProcessTest : public testing::Test {
 protected:
  ProcessWatchProcessTest() {
    auto watch = MakeLocalProcessWatch();
    EXPECT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
    address_ = peer_.ReadLine();
  }

  void Ask(const std::string& line, const std::string& answer) {
    peer_.WriteLine(line);
    EXPECT_EQ(peer_.ReadLine(), answer);
  }
  void PeerWatches() {
    Ask(absl::StrCat("watch ", watch_->address()), "watching");
  }
  void Watch() {
    watch_->Watch({address_},
                  [this](int, ProcessNews news, const absl::Status&) {
                    std::lock_guard lock(mutex_);
                    news_.push_back(news);
                    changed_.notify_all();
                  });
  }
  ProcessNews Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !news_.empty(); });
    const ProcessNews first = news_.front();
    news_.pop_front();
    return first;
  }

  Program peer_{{ProgramPath("watch_peer")}};
  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ProcessNews> news_;
  std::unique_ptr<ProcessWatch> watch_;
};

TEST_F(ProcessWatchProcessTest, AKilledProcessIsTold) {
  PeerWatches();
  Watch();
  EXPECT_EQ(Next(), ProcessNews::kWatched);
  peer_.Signal(SIGKILL);
  EXPECT_EQ(Next(), ProcessNews::kExited);
}

TEST_F(ProcessWatchProcessTest, AChildThatHoldsItsSocketsHidesNothing) {
  PeerWatches();
  Watch();
  EXPECT_EQ(Next(), ProcessNews::kWatched);
  Ask("fork", "forked");
  peer_.Signal(SIGKILL);
  EXPECT_EQ(Next(), ProcessNews::kExited);
}

TEST_F(ProcessWatchProcessTest, OneThatIsStoppedAndKilledIsTold) {
  PeerWatches();
  Watch();
  EXPECT_EQ(Next(), ProcessNews::kWatched);
  peer_.Stop();
  peer_.Signal(SIGKILL);
  EXPECT_EQ(Next(), ProcessNews::kExited);
}

TEST_F(ProcessWatchProcessTest, TheEndOfOneThatIsDoneIsNoNews) {
  PeerWatches();
  Watch();
  EXPECT_EQ(Next(), ProcessNews::kWatched);
  Ask("done", "done");
  peer_.Signal(SIGKILL);
  EXPECT_LT(peer_.Wait(), 0);
  watch_.reset();  // waits for what it is telling
  EXPECT_TRUE(news_.empty());
}

// The session is over, and the process lives.
TEST_F(ProcessWatchProcessTest, ItsEndIsToldThoughItsOwnWatchIsGone) {
  PeerWatches();
  Watch();
  EXPECT_EQ(Next(), ProcessNews::kWatched);
  Ask("drop", "dropped");
  peer_.Signal(SIGKILL);
  EXPECT_EQ(Next(), ProcessNews::kExited);
}

// The listener dies with a process that has not greeted yet.
TEST_F(ProcessWatchProcessTest, OneThatIsKilledBeforeItGreetsIsAClosedSocket) {
  Watch();
  peer_.Signal(SIGKILL);
  EXPECT_EQ(Next(), ProcessNews::kSocketClosed);
}

}  // namespace
}  // namespace lockstep::transport

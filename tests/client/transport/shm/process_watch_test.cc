// Watches of one process. process_watch_process_test.cc has several.

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/transport/shm/local_process_watch.h"
#include "client/transport/shm/local_socket.h"
#include "client/transport/shm/shm_handle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using testing::HasSubstr;

struct News {
  int peer;
  ProcessNews news;
  // A copy of the status would share its text with the watch's thread, and
  // ThreadSanitizer does not see how abseil's library counts its owners.
  std::string why;
};

class Inbox {
 public:
  ProcessWatch::OnNews Sink() {
    return [this](int peer, ProcessNews news, const absl::Status& why) {
      MutexLock lock(&mutex_);
      news_.push_back({peer, news, std::string(why.message())});
      changed_.NotifyAll();
    };
  }
  // Blocks until there is one.
  News Next() {
    MutexLock lock(&mutex_);
    while (news_.empty()) changed_.Wait(&mutex_);
    News first = std::move(news_.front());
    news_.erase(news_.begin());
    return first;
  }
  bool empty() {
    MutexLock lock(&mutex_);
    return news_.empty();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<News> news_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<ProcessWatch> Make() {
  auto watch = MakeLocalProcessWatch();
  EXPECT_TRUE(watch.ok()) << watch.status();
  return *std::move(watch);
}

// A listener at an address of a watch, that is no watch. Its name has the
// process, because this test may run several times at once.
class Stranger {
 public:
  Stranger()
      : name_(absl::StrCat("stranger-", getpid())),
        listener_(*ListenLocally("lockstep-watch-" + name_)),
        address_(absl::StrCat(EndpointOfThisProcess().network, " ", name_)) {}

  const std::string& address() const { return address_; }
  FileDescriptor AwaitGuest() {
    for (;;) {
      auto guest = *Accept(listener_.get());
      if (guest) return *std::move(guest);
    }
  }

 private:
  std::string name_;
  FileDescriptor listener_;
  std::string address_;
};

TEST(ProcessWatchTest, ASocketThatIsClosedIsToldWithItsIndex) {
  auto watch = Make();
  const std::string gone = Make()->address();
  Inbox inbox;
  watch->Watch({"", watch->address(), gone}, inbox.Sink());
  const News news = inbox.Next();
  EXPECT_EQ(news.peer, 2);
  EXPECT_EQ(news.news, ProcessNews::kSocketClosed);
}

TEST(ProcessWatchTest, OneThatEndsBeforeItsGreetingIsASocketThatIsClosed) {
  auto watch = Make();
  auto silent = Make();  // listens, and has no thread
  Inbox inbox;
  watch->Watch({silent->address()}, inbox.Sink());
  EXPECT_TRUE(inbox.empty());
  silent.reset();
  EXPECT_EQ(inbox.Next().news, ProcessNews::kSocketClosed);
}

TEST(ProcessWatchTest, AnotherNetworkNamespaceIsAnotherHost) {
  auto watch = Make();
  Inbox inbox;
  watch->Watch({"net:[1] 0123456789abcdef", "nonsense", ""}, inbox.Sink());
  watch.reset();
  EXPECT_TRUE(inbox.empty());
}

TEST(ProcessWatchTest, AnotherProgramAtTheAddressIsNotWatched) {
  auto watch = Make();
  Stranger stranger;
  Inbox inbox;
  watch->Watch({stranger.address()}, inbox.Sink());
  const uint64_t nonsense = 7;
  ASSERT_TRUE(SendMessage(stranger.AwaitGuest().get(), nonsense).ok());
  const News news = inbox.Next();
  EXPECT_EQ(news.news, ProcessNews::kUnwatched);
  EXPECT_THAT(news.why, HasSubstr("another program"));
}

TEST(ProcessWatchTest, EndsWhileAPeerDoesNotAnswer) {
  auto watch = Make();
  Stranger stranger;
  Inbox inbox;
  watch->Watch({stranger.address()}, inbox.Sink());
  const FileDescriptor guest = stranger.AwaitGuest();
  watch.reset();
  EXPECT_TRUE(inbox.empty());
}

}  // namespace
}  // namespace lockstep::transport

// The listener: which connections it accepts, and that no error ends it.

#include "server/rpc/listener.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/open_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/connection_limit.h"
#include "tests/server/rpc/raw_connection.h"
#include "tests/support/fd_limit.h"

namespace lockstep::rpc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// --- The decision -----------------------------------------------------------

constexpr int kLimit = 40;
constexpr int kFirstRefused = kLimit - ConnectionLimit::kReserve;

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(ConnectionLimitTest, KeepsWhatLeavesTheReserve) {
  ConnectionLimit limit;
  EXPECT_TRUE(limit.Accepted(kFirstRefused - 1, kLimit, At(0)).keep);
  EXPECT_FALSE(limit.Accepted(kFirstRefused, kLimit, At(0)).keep);
  EXPECT_TRUE(limit.Accepted(kFirstRefused, kLimit + 1, At(0)).keep)
      << "somebody has raised the limit";
}

TEST(ConnectionLimitTest, SaysOnceHowManyOfHowManyAreInUse) {
  ConnectionLimit limit;
  EXPECT_EQ(limit.Accepted(5, kLimit, At(0)).log, "");
  EXPECT_THAT(limit.Accepted(kFirstRefused, kLimit, At(1)).log,
              AllOf(HasSubstr("32 of 40"), HasSubstr("ulimit -n")));
  EXPECT_EQ(limit.Accepted(kFirstRefused, kLimit, At(2)).log, "");
  EXPECT_EQ(limit.NotAccepted(EMFILE, At(3)), "");
  EXPECT_THAT(limit.Accepted(kFirstRefused, kLimit, At(31)).log,
              HasSubstr("32 of 40"));
}

TEST(ConnectionLimitTest, SaysThatItIsOverAndHowManyWereRefused) {
  ConnectionLimit limit;
  limit.Accepted(kFirstRefused, kLimit, At(0));
  limit.Accepted(kFirstRefused, kLimit, At(1));
  const auto over = limit.Accepted(5, kLimit, At(2));
  EXPECT_TRUE(over.keep);
  EXPECT_THAT(over.log, HasSubstr("2 were refused"));
  EXPECT_EQ(limit.Accepted(5, kLimit, At(3)).log, "");
}

// Connections that open and close at the limit do not fill the log.
TEST(ConnectionLimitTest, AFloodIsTwoLinesInThirtySeconds) {
  ConnectionLimit limit;
  int lines = 0;
  for (int i = 0; i < 2900; ++i) {
    const int descriptor = i % 2 == 0 ? kFirstRefused : 5;
    lines +=
        limit.Accepted(descriptor, kLimit, At(i / 100.0)).log.empty() ? 0 : 1;
  }
  EXPECT_EQ(lines, 2);
}

TEST(ConnectionLimitTest, NamesTheErrorIfNothingCouldBeAccepted) {
  ConnectionLimit limit;
  EXPECT_THAT(limit.NotAccepted(ENFILE, At(0)), HasSubstr(strerror(ENFILE)));
  EXPECT_EQ(limit.NotAccepted(ENFILE, At(1)), "");
}

// --- The sockets ------------------------------------------------------------

// The connections and warnings of a listener, for a thread to wait for.
class Accepted {
 public:
  Listener::Callbacks Callbacks() {
    return {.on_connection =
                [this](FileDescriptor connection) {
                  std::lock_guard lock(mutex_);
                  connections_.push_back(std::move(connection));
                  changed_.notify_all();
                },
            .on_warning =
                [this](const std::string& line) {
                  std::lock_guard lock(mutex_);
                  warnings_.push_back(line);
                }};
  }
  void Await(size_t connections) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return connections_.size() >= connections;
    }));
  }
  std::vector<std::string> Warnings() {
    std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FileDescriptor> connections_;
  std::vector<std::string> warnings_;
};

TEST(ListenerTest, GoesOnAfterItCouldAcceptNothing) {
  Accepted accepted;
  auto listener = Listener::Bind({"127.0.0.1", 0}).value();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 3; ++i)
    strangers.push_back(ConnectTo(listener->address()));
  {
    const FdLimit none(0);
    listener->Start(accepted.Callbacks());
    for (const FileDescriptor& stranger : strangers) {
      EXPECT_TRUE(IsClosedByPeer(stranger));
    }
  }
  const FileDescriptor later = ConnectTo(listener->address());
  accepted.Await(1);
  EXPECT_THAT(accepted.Warnings(), ElementsAre(HasSubstr(strerror(EMFILE)),
                                               HasSubstr("3 were refused")));
}

TEST(ListenerTest, NoConnectionTakesTheReserve) {
  Accepted accepted;
  auto listener = Listener::Bind({"127.0.0.1", 0}).value();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(ConnectTo(listener->address()));
  }
  const FdLimit few(ConnectionLimit::kReserve + 4);
  listener->Start(accepted.Callbacks());
  EXPECT_TRUE(IsClosedByPeer(strangers.back()));
  EXPECT_TRUE(CanOpenFile());
  EXPECT_THAT(accepted.Warnings(), ElementsAre(HasSubstr("are in use")));
}

TEST(ListenerTest, EndsWhileConnectionsCome) {
  Accepted accepted;
  auto listener = Listener::Bind({"127.0.0.1", 0}).value();
  listener->Start(accepted.Callbacks());
  const FileDescriptor one = ConnectTo(listener->address());
  listener.reset();
}

TEST(ListenerTest, AnUnspecifiedAddressIsForBothFamilies) {
  for (const char* host : {"0.0.0.0", "::"}) {
    Accepted accepted;
    auto listener = Listener::Bind({host, 0});
    ASSERT_TRUE(listener.ok()) << listener.status();
    (*listener)->Start(accepted.Callbacks());
    EXPECT_EQ((*listener)->address().host, host);
    const FileDescriptor one =
        ConnectTo({"127.0.0.1", (*listener)->address().port});
    accepted.Await(1);
  }
}

TEST(ListenerTest, AHostNameStandsForAllItsAddressesAndOnePort) {
  Accepted accepted;
  auto listener = Listener::Bind({"localhost", 0});
  ASSERT_TRUE(listener.ok()) << listener.status();
  (*listener)->Start(accepted.Callbacks());
  const FileDescriptor one =
      ConnectTo({"127.0.0.1", (*listener)->address().port});
  accepted.Await(1);
}

TEST(ListenerTest, SaysWhyItCannotListen) {
  const auto first = Listener::Bind({"127.0.0.1", 0}).value();
  const struct {
    Address address;
    std::string why;
  } cases[] = {{first->address(), strerror(EADDRINUSE)},
               {{"192.0.2.1", 0}, strerror(EADDRNOTAVAIL)},
               // A longer label than 63 is not looked up.
               {{std::string(64, 'a'), 0}, "aaaa"}};
  for (const auto& wrong : cases) {
    const absl::Status status = Listener::Bind(wrong.address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(ToString(wrong.address)), HasSubstr(wrong.why)));
  }
}

TEST(ListenerTest, TooFewDescriptorsAreNamed) {
  const FdLimit none(0);
  EXPECT_EQ(Listener::Bind({"127.0.0.1", 0}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::rpc

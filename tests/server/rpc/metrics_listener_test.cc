// The listener of the metrics, over loopback: whatever clients do, the next
// scrape is answered.

#include "server/rpc/metrics_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/raw_connection.h"

namespace lockstep::rpc {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kScrape[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

class MetricsListenerTest : public testing::Test {
 protected:
  void Start(
      const absl::StatusOr<std::string>& page,
      absl::Duration connection_time = MetricsListener::kConnectionTime) {
    auto started = MetricsListener::Start(
        {"127.0.0.1", 0},
        [this, page]() -> absl::StatusOr<std::shared_ptr<const std::string>> {
          ++pages_;
          if (!page.ok()) return page.status();
          return std::make_shared<const std::string>(*page);
        },
        /*on_warning=*/{}, connection_time);
    ASSERT_TRUE(started.ok()) << started.status();
    listener_ = *std::move(started);
  }

  FileDescriptor Connect() const { return ConnectTo(listener_->address()); }

  static void Send(const FileDescriptor& connection, const std::string& bytes) {
    EXPECT_EQ(send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Everything until the server ends the connection.
  static std::string ReadAll(const FileDescriptor& connection) {
    std::string all;
    char bytes[65536];
    pollfd readable{.fd = connection.get(), .events = POLLIN};
    while (poll(&readable, 1, 60'000) == 1) {
      const ssize_t count = recv(connection.get(), bytes, sizeof bytes, 0);
      if (count <= 0) return all;
      all.append(bytes, count);
    }
    ADD_FAILURE() << "the connection does not end";
    return all;
  }
  std::string Ask(const std::string& request) const {
    const FileDescriptor connection = Connect();
    Send(connection, request);
    return ReadAll(connection);
  }

  std::atomic<int> pages_ = 0;
  std::unique_ptr<MetricsListener> listener_;
};

TEST_F(MetricsListenerTest, ServesThePage) {
  Start("x 1\n");
  const std::string answer = Ask(kScrape);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nx 1\n"));
  EXPECT_EQ(pages_, 1);
}

TEST_F(MetricsListenerTest, OtherRequestsMakeNoPage) {
  Start("x 1\n");
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), EndsWith("404 Not Found\n"));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
              EndsWith("405 Method Not Allowed\n"));
  EXPECT_THAT(Ask(std::string("\x16\x03\x01\x00\xff", 5)),
              EndsWith("400 Bad Request\n"));
  EXPECT_THAT(Ask("GET /" + std::string(100'000, 'x')),
              EndsWith("431 Request Header Fields Too Large\n"));
  EXPECT_EQ(pages_, 0);
}

TEST_F(MetricsListenerTest, AnErrorOfThePageIsItsAnswer) {
  Start(absl::DeadlineExceededError("the loop is stuck"));
  const std::string answer = Ask(kScrape);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, EndsWith("the loop is stuck\n"));
}

TEST_F(MetricsListenerTest, ALargePageArrivesWholeAtASlowReader) {
  const std::string page(8 << 20, 'x');
  Start(page);
  const FileDescriptor slow = Connect();
  Send(slow, kScrape);
  EXPECT_THAT(Ask(kScrape), EndsWith(page)) << "beside one that does not read";
  EXPECT_THAT(ReadAll(slow), EndsWith(page));
}

TEST_F(MetricsListenerTest, ARequestMayArriveByteByByte) {
  Start("x 1\n");
  const FileDescriptor slow = Connect();
  const int on = 1;
  setsockopt(slow.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (const char byte : std::string(kScrape)) Send(slow, {byte});
  EXPECT_THAT(ReadAll(slow), EndsWith("x 1\n"));
}

TEST_F(MetricsListenerTest, SilentConnectionsAreReplacedOldestFirst) {
  Start("x 1\n");
  std::vector<FileDescriptor> silent;
  for (size_t i = 0; i < MetricsListener::kConnectionsMax; ++i) {
    silent.push_back(Connect());
    EXPECT_THAT(Ask(kScrape), EndsWith("x 1\n")) << "those before are taken";
  }
  EXPECT_TRUE(IsClosedByPeer(silent.front()));
  Send(silent.back(), kScrape);
  EXPECT_THAT(ReadAll(silent.back()), EndsWith("x 1\n"));
}

TEST_F(MetricsListenerTest, AScrapeIsAnsweredBesideManyConnections) {
  Start("x 1\n");
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connect());
  EXPECT_THAT(Ask(kScrape), EndsWith("x 1\n"));
}

TEST_F(MetricsListenerTest, NobodyStaysLongerThanItsTime) {
  Start(std::string(8 << 20, 'x'), absl::Milliseconds(50));
  const FileDescriptor reads_nothing = Connect();
  Send(reads_nothing, kScrape);
  const FileDescriptor silent = Connect();
  EXPECT_EQ(ReadAll(silent), "");
  // The time of the first one is over, too. It gets only the part of the answer
  // that fits the kernel's buffers.
  EXPECT_LT(ReadAll(reads_nothing).size(), size_t{8} << 20);
}

TEST_F(MetricsListenerTest, ShutdownEndsWhoeverIsThere) {
  Start(std::string(8 << 20, 'x'));
  const FileDescriptor silent = Connect();
  const FileDescriptor reads_nothing = Connect();
  Send(reads_nothing, kScrape);
  while (pages_ == 0) absl::SleepFor(absl::Milliseconds(1));
  listener_->Shutdown(absl::Milliseconds(1));
  EXPECT_EQ(ReadAll(silent), "");
  EXPECT_LT(ReadAll(reads_nothing).size(), size_t{8} << 20);
}

TEST_F(MetricsListenerTest, ShutdownLetsAnAnswerBeRead) {
  const std::string page(8 << 20, 'x');
  Start(page);
  const FileDescriptor reader = Connect();
  Send(reader, kScrape);
  while (pages_ == 0) absl::SleepFor(absl::Milliseconds(1));
  std::thread shutdown([this] { listener_->Shutdown(absl::Minutes(1)); });
  EXPECT_THAT(ReadAll(reader), EndsWith(page));
  shutdown.join();
}

}  // namespace
}  // namespace lockstep::rpc

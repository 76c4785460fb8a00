// Hostile clients of the gRPC server: silent ones, slow ones, many, and ones
// with messages that are too large. Each ends with a clear error, each refusal
// is counted, and a job goes on.

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/open_connections.h"
#include "tests/security/running_job.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/rpc/raw_connection.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

void ExpectThatAWorkerJoins(const InProcessDaemon& daemon) {
  StreamLine line(ChannelTo(daemon.address()));
  ScriptedWorker worker(&line, SpecOf("later", 1), "worker-0");
  worker.PostHello();
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

// --- Streams without Hello ---------------------------------------------------

// The peer of a stream learns of it when something is sent; the server sends
// nothing before Hello, so these wait for their number.
TEST(HelloLimitTest, AStreamThatSaysNothingEnds) {
  InProcessDaemon daemon({}, nullptr, {"127.0.0.1", 0}, {},
                         {.timeout = absl::Milliseconds(50)});
  RunningJob job(daemon);
  StreamLine silent(ChannelTo(daemon.address()));
  const absl::Status ended = silent.Finish();
  EXPECT_EQ(ended.code(), StatusCode::kDeadlineExceeded) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("no Hello"));
  EXPECT_EQ(UseOf(job.channel(), "hello_seconds").refused, 1);
  job.ExpectThatItGoesOn();
}

TEST(HelloLimitTest, OfTooManySilentStreamsTheOldestEndAndWorkersJoin) {
  InProcessDaemon daemon({}, nullptr, {"127.0.0.1", 0}, {}, {.streams = 10});
  RunningJob job(daemon);
  const auto channel = ChannelTo(daemon.address());
  std::vector<std::unique_ptr<StreamLine>> silent;
  for (int i = 0; i < 30; ++i) {
    silent.push_back(std::make_unique<StreamLine>(channel));
    if (i > 0) continue;
    // The oldest: the server may take others in another order.
    EXPECT_TRUE(Eventually([&] {
      return UseOf(job.channel(), "streams_without_hello").used == 1;
    }));
  }
  EXPECT_TRUE(Eventually([&] {
    return UseOf(job.channel(), "streams_without_hello").refused == 20;
  }));
  EXPECT_EQ(UseOf(job.channel(), "streams_without_hello").used, 10);
  const absl::Status ended = silent.front()->Finish();
  EXPECT_EQ(ended.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("--hello_streams_max"));
  ExpectThatAWorkerJoins(daemon);
  job.ExpectThatItGoesOn();
  for (auto& line : silent) line->Cancel();
}

// --- Slow and silent connections ---------------------------------------------

std::string Frame(char type, char flags, char stream,
                  const std::string& payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  std::string bytes = {static_cast<char>(length >> 16),
                       static_cast<char>(length >> 8),
                       static_cast<char>(length),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
  return bytes + payload;
}

// HTTP/2's preface, an empty SETTINGS frame, and the headers of a call of
// Session.
std::string BeginningOfACall() {
  const auto header = [](const std::string& name, const std::string& value) {
    std::string bytes(1, '\0');  // a literal that is not indexed
    bytes += static_cast<char>(name.size());
    bytes += name;
    bytes += static_cast<char>(value.size());
    return bytes + value;
  };
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "") +
         Frame(1, 4, 1,
               header(":method", "POST") + header(":scheme", "http") +
                   header(":path", "/lockstep.v1.Coordinator/Session") +
                   header(":authority", "x") + header("te", "trailers") +
                   header("content-type", "application/grpc"));
}

// The first bytes of a message that claims to have `size`.
std::string BeginningOfAMessage(uint32_t size) {
  const std::string length = {
      0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
      static_cast<char>(size >> 8), static_cast<char>(size)};
  return Frame(0, 0, 1, length + std::string(100, 'x'));
}

void SendAll(const FileDescriptor& connection, const std::string& bytes) {
  EXPECT_EQ(send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Sends one byte at a time, until the peer closes the connection. False if it
// has not within a minute.
bool IsClosedWhileItDrips(const FileDescriptor& connection,
                          const std::string& bytes) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  for (size_t i = 0; absl::Now() < deadline; ++i) {
    const char byte = bytes[i % bytes.size()];
    if (send(connection.get(), &byte, 1, MSG_NOSIGNAL) < 0) return true;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return false;
}

TEST(SlowClientTest, AHandshakeByteByByteEnds) {
  ServerOptions options;
  options.handshake_timeout = absl::Milliseconds(200);
  InProcessDaemon daemon(options);
  RunningJob job(daemon);
  const FileDescriptor slow = ConnectTo(daemon.server().address());
  EXPECT_TRUE(IsClosedWhileItDrips(slow, "PRI * HTTP/2.0\r\n"));
  job.ExpectThatItGoesOn();
}

// The stream is refused for want of a Hello; then the connection is idle.
TEST(SlowClientTest, AMessageByteByByteEnds) {
  ServerOptions options;
  options.idle_timeout = absl::Milliseconds(100);
  InProcessDaemon daemon(options, nullptr, {"127.0.0.1", 0}, {},
                         {.timeout = absl::Milliseconds(200)});
  RunningJob job(daemon);
  const FileDescriptor slow = ConnectTo(daemon.server().address());
  SendAll(slow, BeginningOfACall() + BeginningOfAMessage(1 << 20));
  EXPECT_TRUE(Eventually(
      [&] { return UseOf(job.channel(), "hello_seconds").refused == 1; }));
  EXPECT_TRUE(IsClosedByPeer(slow));
  job.ExpectThatItGoesOn();
}

// --- Connections
// --------------------------------------------------------------

TEST(OpenConnectionsTest, CountsWhatIsOpenAndIsNotDeceivedByUsedNumbers) {
  OpenConnections open;
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  FileDescriptor one(pair[0]), two(pair[1]);
  open.Add(one.get());
  open.Add(two.get());
  EXPECT_EQ(open.Count(), 2u);
  const int number = two.get();
  two = FileDescriptor();
  EXPECT_EQ(open.known(), 2u);
  const FileDescriptor other(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(other.get(), number);
  EXPECT_EQ(open.Count(), 1u);
}

TEST(ConnectionsTest, ThoseBeyondTheLimitAreClosedAtOnceUntilOthersEnd) {
  ServerOptions options;
  options.limits.connections = 8;
  InProcessDaemon daemon(options);
  RunningJob job(daemon);  // one connection, which also asks
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(ConnectTo(daemon.server().address()));
  }
  EXPECT_TRUE(Eventually(
      [&] { return UseOf(job.channel(), "connections").refused == 33; }));
  EXPECT_EQ(UseOf(job.channel(), "connections").used, 8);
  EXPECT_EQ(UseOf(job.channel(), "connections").highest, 8);
  EXPECT_TRUE(IsClosedByPeer(idle.back()));
  job.ExpectThatItGoesOn();
  idle.clear();
  EXPECT_TRUE(Eventually(
      [&] { return UseOf(job.channel(), "connections").used == 1; }));
  absl::SleepFor(RpcLimits::kCountInterval);
  ExpectThatAWorkerJoins(daemon);
}

// --- Messages
// -------------------------------------------------------------------

TEST(MessageLimitTest, EveryCallWithTooMuchGetsResourceExhausted) {
  InProcessDaemon daemon;
  RunningJob job(daemon);
  const std::string large = LargeMessage(5 << 20);
  for (const char* method :
       {"/lockstep.v1.Coordinator/Session",
        "/lockstep.v1.Coordinator/FetchPlan", "/lockstep.v1.Admin/CreateJob",
        "/lockstep.v1.Admin/ListJobs"}) {
    const absl::Status status =
        CallWithBytes(ChannelTo(daemon.address()), method, large).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted)
        << method << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("larger"));
  }
  EXPECT_EQ(UseOf(job.channel(), "message_bytes").refused, 4);
  job.ExpectThatItGoesOn();
}

// Ends of streams that are no refusals of messages.
TEST(MessageLimitTest, StreamsThatEndOtherwiseAreNotCounted) {
  InProcessDaemon daemon;
  RunningJob job(daemon);
  {
    StreamLine ended(ChannelTo(daemon.address()));
    ended.WritesDone();
    EXPECT_TRUE(ended.Finish().ok());
    StreamLine cancelled(ChannelTo(daemon.address()));
    ScriptedWorker worker(&cancelled, SpecOf("cancelled", 1), "worker-0");
    worker.PostHello();
    worker.Next<protocol::Welcome>();
    cancelled.Cancel();
    EXPECT_EQ(cancelled.Finish().code(), StatusCode::kCancelled);
  }
  const auto malformed =
      CallWithBytes(ChannelTo(daemon.address()),
                    "/lockstep.v1.Coordinator/Session", "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(malformed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Eventually(
      [&] { return daemon.metrics().Value({"lockstep_sessions"}) == 1; }));
  EXPECT_EQ(UseOf(job.channel(), "message_bytes").refused, 0);
  EXPECT_GT(UseOf(job.channel(), "message_bytes").highest, 0);
}

TEST(MessageLimitTest, StreamsThatAreResetAreNotCounted) {
  ServerOptions options;
  options.idle_timeout = absl::Milliseconds(100);
  InProcessDaemon daemon(options);
  RunningJob job(daemon);
  const std::string end = Frame(0, 1, 1, "");
  const std::string reset = Frame(3, 0, 1, std::string("\0\0\0\x08", 4));
  const std::string message = BeginningOfAMessage(1 << 20);
  for (const std::string& rest :
       {reset, message + reset, end + reset, message + end + reset}) {
    const FileDescriptor raw = ConnectTo(daemon.server().address());
    SendAll(raw, BeginningOfACall() + rest);
    EXPECT_TRUE(IsClosedByPeer(raw)) << "it is idle after the call";
  }
  EXPECT_EQ(UseOf(job.channel(), "message_bytes").refused, 0);
  job.ExpectThatItGoesOn();
}

// --- Messages that nobody reads ----------------------------------------------

TEST(UnreadLimitTest, AWorkerThatDoesNotReadIsDisconnectedAndCounted) {
  ServerOptions options;
  options.limits.unread_bytes = 1 << 20;
  InProcessDaemon daemon(options);
  RunningJob job(daemon);
  JobSpec spec = SpecOf("unread", 500);
  for (int i = 0; i < 500; ++i) {  // makes each Welcome large
    spec.workers.push_back(absl::StrCat("worker-with-a-long-name-", i));
  }
  StreamLine line(ChannelTo(daemon.address()));
  ScriptedWorker worker(&line, spec, spec.workers[0]);
  const v1::ToCoordinator hello = proto::ToProto(
      protocol::ToCoordinator{.job = {spec.name}, .body = worker.Hello()});
  int said = 0;
  while (said < 20'000 && line.Write(hello)) ++said;
  EXPECT_LT(said, 20'000);
  EXPECT_EQ(UseOf(job.channel(), "unread_bytes").refused, 1);
  EXPECT_LE(UseOf(job.channel(), "unread_bytes").highest, 1 << 20);
  job.ExpectThatItGoesOn();
}

}  // namespace
}  // namespace lockstep::rpc

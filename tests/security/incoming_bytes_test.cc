// What clients send that is no whole message: the coordinator bounds it, ends
// the connection that sends it, and leaves others alone.

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/open_connections.h"
#include "tests/security/running_job.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/rpc/raw_connection.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A TCP connection over loopback, both ends of it.
class Loopback {
 public:
  Loopback() {
    const FileDescriptor listening(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listening.get(), any, size), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    EXPECT_EQ(getsockname(listening.get(), any, &size), 0);
    client_ = ConnectTo({"127.0.0.1", ntohs(address.sin_port)});
    server_ = FileDescriptor(accept(listening.get(), nullptr, nullptr));
    EXPECT_EQ(getsockname(client_.get(), any, &size), 0);
    peer_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }

  // Blocks until the server's kernel has them: nobody reads.
  void Send(size_t bytes) {
    const std::string sent(bytes, 'x');
    EXPECT_EQ(send(client_.get(), sent.data(), bytes, MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes));
    sent_ += bytes;
    std::string room(sent_, '\0');
    EXPECT_TRUE(Eventually([&] {
      return recv(server_.get(), room.data(), sent_, MSG_PEEK) ==
             static_cast<ssize_t>(sent_);
    }));
  }

  const FileDescriptor& client() const { return client_; }
  int descriptor() const { return server_.get(); }
  // As gRPC names it, and as this project does.
  std::string grpc_peer() const { return absl::StrCat("ipv4:", peer_); }
  const std::string& peer() const { return peer_; }

  // Closes the server's end.
  void Close() { server_ = FileDescriptor(); }
  bool IsClosed() const {
    char byte;
    return recv(client_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  FileDescriptor client_, server_;
  std::string peer_;
  size_t sent_ = 0;
};

int64_t WaitingOf(OpenConnections& open, int64_t allowance = 0) {
  const auto waiting = open.WaitingBytes(allowance);
  EXPECT_EQ(waiting.size(), 1u);
  return waiting.empty() ? -1 : waiting[0].bytes;
}

// --- What waits --------------------------------------------------------------

TEST(WaitingBytesTest, AreThoseThatWereReceivedAndNotGivenToCalls) {
  Loopback connection;
  OpenConnections open;
  open.Add(connection.descriptor());
  EXPECT_EQ(WaitingOf(open), 0);
  connection.Send(10'000);
  EXPECT_EQ(WaitingOf(open), 10'000);
  const auto given = open.GivenBytesOf(connection.grpc_peer());
  ASSERT_NE(given, nullptr);
  *given += 6'000;
  EXPECT_EQ(WaitingOf(open), 4'000);
  EXPECT_EQ(WaitingOf(open, 500), 3'500);
}

TEST(WaitingBytesTest, AnAllowanceCannotBeSavedUp) {
  Loopback connection;
  OpenConnections open;
  open.Add(connection.descriptor());
  EXPECT_EQ(WaitingOf(open, 1'000'000), 0);
  connection.Send(10'000);
  EXPECT_EQ(WaitingOf(open), 10'000);
}

TEST(WaitingBytesTest, OnlyOpenConnectionsAreKnownByTheirPeers) {
  Loopback first, second;
  OpenConnections open;
  open.Add(first.descriptor());
  open.Add(second.descriptor());
  EXPECT_EQ(open.GivenBytesOf("ipv4:127.0.0.1:1"), nullptr);
  EXPECT_NE(open.GivenBytesOf(first.grpc_peer()),
            open.GivenBytesOf(second.grpc_peer()));
  first.Close();
  EXPECT_EQ(open.Count(), 1u);
  EXPECT_EQ(open.GivenBytesOf(first.grpc_peer()), nullptr);
  EXPECT_NE(open.GivenBytesOf(second.grpc_peer()), nullptr);
}

// A descriptor's number is soon another's.
TEST(WaitingBytesTest, EndEndsNoOtherConnectionOfThatNumber) {
  Loopback first, second;
  OpenConnections open;
  open.Add(first.descriptor());
  first.Send(100);
  const OpenConnections::Waiting most = open.WaitingBytes(0).at(0);
  EXPECT_EQ(most.peer, first.peer());
  ASSERT_EQ(dup2(second.descriptor(), first.descriptor()), first.descriptor());
  open.End(most);
  EXPECT_FALSE(second.IsClosed());
  EXPECT_EQ(open.known(), 0u);
}

// --- The limits --------------------------------------------------------------

LimitUse UseIn(RpcLimits& limits, const std::string& name) {
  for (const LimitUse& use : limits.Uses()) {
    if (use.name == name) return use;
  }
  ADD_FAILURE() << "no limit " << name;
  return {};
}

TEST(IncomingLimitsTest, AConnectionWithTooMuchIsEnded) {
  RpcLimits limits({.connection_bytes = 10'000});
  Loopback small, large;
  const absl::Time now = absl::Now();
  ASSERT_TRUE(limits.AdmitConnection(small.descriptor(), now));
  ASSERT_TRUE(limits.AdmitConnection(large.descriptor(), now));
  EXPECT_THAT(limits.EndOverfullConnections(now), IsEmpty());
  small.Send(5'000);
  large.Send(15'000);
  EXPECT_THAT(limits.EndOverfullConnections(now), IsEmpty())
      << "not before the interval";
  EXPECT_THAT(limits.EndOverfullConnections(now + RpcLimits::kCheckInterval),
              ElementsAre(AllOf(HasSubstr(large.peer()),
                                HasSubstr("--connection_bytes_max"))));
  EXPECT_TRUE(large.IsClosed());
  EXPECT_FALSE(small.IsClosed());
  EXPECT_EQ(UseIn(limits, "connection_bytes").refused, 1);
  EXPECT_EQ(UseIn(limits, "incoming_bytes").refused, 0);
}

TEST(IncomingLimitsTest, OfTooMuchInAllTheConnectionWithTheMostIsEnded) {
  RpcLimits limits({.connection_bytes = 10'000, .incoming_bytes = 15'000});
  Loopback connections[3];
  const absl::Time now = absl::Now();
  for (const Loopback& connection : connections) {
    ASSERT_TRUE(limits.AdmitConnection(connection.descriptor(), now));
  }
  connections[0].Send(5'000);
  connections[1].Send(8'000);
  connections[2].Send(6'000);
  EXPECT_THAT(limits.EndOverfullConnections(now),
              ElementsAre(AllOf(HasSubstr(connections[1].peer()),
                                HasSubstr("--incoming_bytes_max"))));
  EXPECT_TRUE(connections[1].IsClosed());
  EXPECT_FALSE(connections[0].IsClosed());
  EXPECT_FALSE(connections[2].IsClosed());
  EXPECT_EQ(UseIn(limits, "incoming_bytes").refused, 1);
  EXPECT_GT(*UseIn(limits, "incoming_bytes").used, 10'000);
  EXPECT_LE(*UseIn(limits, "incoming_bytes").used, 11'000);
}

// --- gRPC --------------------------------------------------------------------

constexpr int64_t kMiB = 1 << 20;

ServerOptions SmallConnections() {
  ServerOptions options;
  options.limits.connection_bytes = 8 * kMiB;
  return options;
}

// A message that is refused for its size only once it is whole.
TEST(IncomingBytesTest, AnEndlessMessageEndsItsConnectionAndNoOther) {
  InProcessDaemon daemon(SmallConnections());
  RunningJob job(daemon);
  const std::string large(256 * kMiB, '\0');
  int64_t refused = 0;
  for (const char* method :
       {"/lockstep.v1.Coordinator/Session", "/lockstep.v1.Admin/ListJobs"}) {
    const absl::Status status =
        CallWithBytes(ChannelTo(daemon.address()), method, large).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable)
        << method << ": " << status;
    EXPECT_EQ(UseOf(job.channel(), "connection_bytes").refused, ++refused);
  }
  job.ExpectThatItGoesOn();
}

// A compressed message is larger than what its connection has sent.
TEST(IncomingBytesTest, CompressedMessagesAreRefusedAndNotUnpacked) {
  InProcessDaemon daemon;
  RunningJob job(daemon);
  const int64_t highest = UseOf(job.channel(), "message_bytes").highest;
  const auto admin = v1::Admin::NewStub(ChannelTo(daemon.address()));
  v1::ListJobsRequest request;
  request.set_token(std::string(3 * kMiB, 't'));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext call;
    SetDeadline(&call);
    call.set_compression_algorithm(algorithm);
    v1::ListJobsResponse response;
    const grpc::Status status = admin->ListJobs(&call, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
  }
  EXPECT_EQ(UseOf(job.channel(), "message_bytes").highest, highest);
  job.ExpectThatItGoesOn();
}

// A message that is too large is given to its call, which refuses it.
TEST(IncomingBytesTest, MessagesThatWereRefusedForTheirSizeDoNotCount) {
  ServerOptions options = SmallConnections();
  options.limits.message_bytes = kMiB;
  InProcessDaemon daemon(options);
  RunningJob job(daemon);
  const std::string large = LargeMessage(3 * kMiB);
  int64_t refused = 0;
  for (const char* method :
       {"/lockstep.v1.Coordinator/Session",
        "/lockstep.v1.Coordinator/FetchPlan", "/lockstep.v1.Admin/ListJobs"}) {
    const auto channel = ChannelTo(daemon.address());
    for (int i = 0; i < 5; ++i) {
      const auto status = CallWithBytes(channel, method, large).status();
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
      EXPECT_EQ(UseOf(job.channel(), "message_bytes").refused, ++refused);
    }
    absl::SleepFor(2 * RpcLimits::kCheckInterval);
    EXPECT_LT(*UseOf(job.channel(), "incoming_bytes").used, kMiB) << method;
  }
  EXPECT_EQ(UseOf(job.channel(), "connection_bytes").refused, 0);
  job.ExpectThatItGoesOn();
}

// gRPC refuses these, and does not report how large they were.
TEST(IncomingBytesTest, FarTooLargeMessagesCountUntilTheConnectionEnds) {
  ServerOptions options = SmallConnections();
  options.limits.message_bytes = kMiB;
  Mutex mutex;
  std::string log;
  options.on_warning = [&](const std::string& line) {
    MutexLock lock(&mutex);
    log += line;
  };
  InProcessDaemon daemon(options);
  RunningJob job(daemon);
  const auto channel = ChannelTo(daemon.address());
  const std::string large(5 * kMiB, '\0');
  const auto call = [&] {
    return CallWithBytes(channel, "/lockstep.v1.Admin/ListJobs", large)
        .status()
        .code();
  };
  EXPECT_EQ(call(), StatusCode::kResourceExhausted);
  // The connection ends by these bytes, perhaps before the answer has left.
  EXPECT_THAT(call(), testing::AnyOf(StatusCode::kResourceExhausted,
                                     StatusCode::kUnavailable));
  EXPECT_TRUE(Eventually(
      [&] { return UseOf(job.channel(), "connection_bytes").refused == 1; }));
  EXPECT_TRUE(Eventually([&] {
    MutexLock lock(&mutex);
    return log.find("far too large") != std::string::npos;
  }));
  job.ExpectThatItGoesOn();
}

// More than the limit in all, in whole messages.
TEST(IncomingBytesTest, MessagesThatCallsWereGivenDoNotCount) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    InProcessDaemon daemon(SmallConnections(), nullptr, {host, 0});
    RunningJob job(daemon);
    const auto channel = ChannelTo(daemon.address());
    const auto admin = v1::Admin::NewStub(channel);
    v1::ListJobsRequest request;
    request.set_token(std::string(kMiB, 't'));
    for (int i = 0; i < 30; ++i) {
      grpc::ClientContext call;
      SetDeadline(&call);
      v1::ListJobsResponse response;
      EXPECT_TRUE(admin->ListJobs(&call, request, &response).ok());
    }
    absl::SleepFor(2 * RpcLimits::kCheckInterval);
    EXPECT_EQ(UseOf(channel, "connection_bytes").refused, 0);
    EXPECT_LT(*UseOf(channel, "incoming_bytes").used, kMiB);
    EXPECT_GE(UseOf(channel, "message_bytes").highest, kMiB);
    job.ExpectThatItGoesOn();
  }
}

}  // namespace
}  // namespace lockstep::rpc

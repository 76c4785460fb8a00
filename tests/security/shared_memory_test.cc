// A rank's shared memory is for processes of its user only, whatever a process
// of another user knows.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/transport/shm/local_socket.h"
#include "client/transport/shm/shm.h"
#include "client/transport/shm/shm_handle.h"
#include "gtest/gtest.h"
#include "tests/support/other_user.h"

namespace lockstep::transport {
namespace {

constexpr int kNothing = 100;  // of ConnectAs: the pipes broke

// Messages of text between two processes.
class TextPipe {
 public:
  TextPipe() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
  }
  ~TextPipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  bool Write(int end, const std::string& text) {
    return write(ends_[end], text.data(), text.size()) ==
           static_cast<ssize_t>(text.size());
  }
  std::string Read(int end) {
    std::string text(4096, '\0');
    const ssize_t got = read(ends_[end], text.data(), text.size());
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

// Rank 0 listens in this process; rank 1 connects in a process of `user`, and
// has been given its handle. Returns the code of rank 1.
absl::StatusCode ConnectAs(uid_t user) {
  const auto transport = MakeShmTransport();
  const auto listener =
      transport->Prepare({.name = "g", .rank = 0, .size = 2}).value();
  const std::string handle = listener->handle();
  TextPipe pipe;
  absl::Status own;
  std::thread rank_0([&] {
    const std::string theirs = pipe.Read(0);
    const auto group = listener->Connect({handle, theirs}, absl::Seconds(60));
    own = group.status();
    pipe.Write(0, "done");
  });
  const int code = CallAs(user, [&] {
    const auto mine = MakeShmTransport();
    auto pending = mine->Prepare({.name = "g", .rank = 1, .size = 2});
    if (!pending.ok() || !pipe.Write(1, (*pending)->handle())) return kNothing;
    const auto group =
        (*pending)->Connect({handle, (*pending)->handle()}, absl::Seconds(60));
    if (group.ok()) pipe.Read(1);
    return static_cast<int>(group.status().code());
  });
  if (code != 0) listener->Abort("rank 1 does not come");
  rank_0.join();
  EXPECT_EQ(own.ok(), code == 0) << own;
  EXPECT_NE(code, kNothing);
  return static_cast<absl::StatusCode>(code);
}

TEST(SharedMemoryTest, OnlyAProcessOfTheSameUserConnects) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(ConnectAs(FreeUser()), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ConnectAs(geteuid()), absl::StatusCode::kOk);
}

// It does not look who listens: the listener does.
TEST(SharedMemoryTest, AnotherUserWhoDialsIsHungUpOn) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can become another user";
  const auto transport = MakeShmTransport();
  const auto listener =
      transport->Prepare({.name = "g", .rank = 0, .size = 2}).value();
  const auto absent =
      transport->Prepare({.name = "g", .rank = 1, .size = 2}).value();
  const auto where = ParseShmHandle(listener->handle(), 0, 2);
  ASSERT_TRUE(where.ok()) << where.status();
  std::thread rank_0([&] {
    listener->Connect({listener->handle(), absent->handle()}, absl::Seconds(60))
        .status()
        .IgnoreError();
  });
  // 0: nothing was sent; 1: the connection was closed without a descriptor; 2:
  // something was received.
  const auto dial_as = [&](uid_t user, int patience_ms) {
    return CallAs(user, [&] {
      const auto socket = DialLocally(where->socket);
      if (!socket.ok() || !socket->has_value()) return kNothing;
      pollfd news = {(*socket)->get(), POLLIN, 0};
      poll(&news, 1, patience_ms);
      char bytes[256];
      const auto message = ReceiveBytes((*socket)->get(), bytes, sizeof bytes);
      if (!message.ok()) return 1;  // closed
      if (!message->has_value()) return 0;
      return (*message)->bytes == 0 && (*message)->files.empty() ? 1 : 2;
    });
  };
  EXPECT_EQ(dial_as(FreeUser(), 60'000), 1);
  EXPECT_EQ(dial_as(geteuid(), 100), 0) << "a member may be slow";
  listener->Abort("rank 1 does not come");
  rank_0.join();
}

}  // namespace
}  // namespace lockstep::transport

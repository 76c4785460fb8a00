// How shared-memory groups form, and which processes are refused.

#include "client/transport/shm/rendezvous.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/local_socket.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "tests/support/fd_limit.h"

namespace lockstep::transport {
namespace {

using Handles = std::vector<std::string>;

class ShmConnectTest : public testing::Test {
 protected:
  std::unique_ptr<PendingGroup> Prepared(int rank, int size) {
    return *transport_->Prepare({.name = "g", .rank = rank, .size = size});
  }

  const std::unique_ptr<Transport> transport_ = MakeShmTransport();
};

TEST_F(ShmConnectTest, RefusesGroupsThatCannotBe) {
  for (auto [rank, size] :
       {std::pair(-1, 2), {2, 2}, {0, 0}, {0, kRanksMax + 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        transport_->Prepare({.name = "g", .rank = rank, .size = size})
            .status()));
  }
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  for (const Handles& handles :
       {Handles{first->handle()}, Handles{second->handle(), first->handle()}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        first->Connect(handles, absl::Seconds(60)).status()));
  }
  const absl::Status refused =
      first->Connect({first->handle(), "nonsense"}, absl::Seconds(60)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_EQ(FailedPeer(refused), 1);
}

TEST_F(ShmConnectTest, NamesWhoDoesNotCome) {
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  const absl::Status late =
      first->Connect({first->handle(), second->handle()}, absl::Milliseconds(1))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_EQ(FailedPeer(late), 1);
}

TEST_F(ShmConnectTest, NamesWhoHasGone) {
  const auto first = Prepared(1, 2);
  auto other = Prepared(0, 2);
  const std::string handle = other->handle();
  other = nullptr;
  const absl::Status gone =
      first->Connect({handle, first->handle()}, absl::Seconds(60)).status();
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_EQ(FailedPeer(gone), 0);
}

// Any user of the machine may connect to the socket, and fill its queue.
TEST_F(ShmConnectTest, DialsAgainWhileTheQueueOfAPeerIsFull) {
  const auto fill = [](const std::string& socket) {
    for (;;) {
      const auto dialed = DialLocally(socket);
      ASSERT_TRUE(dialed.ok()) << dialed.status();
      if (!dialed->has_value()) return;
    }
  };
  {
    const auto first = Prepared(0, 2);
    const auto second = Prepared(1, 2);
    fill(ParseShmHandle(first->handle(), 0, 2)->socket);
    const absl::Status late = second
                                  ->Connect({first->handle(), second->handle()},
                                            absl::Milliseconds(1))
                                  .status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
    EXPECT_EQ(FailedPeer(late), 0);
  }
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  const Handles handles = {first->handle(), second->handle()};
  fill(ParseShmHandle(first->handle(), 0, 2)->socket);
  std::thread dialer([&] {
    const auto comm = second->Connect(handles, absl::Seconds(60));
    EXPECT_TRUE(comm.ok()) << comm.status();
  });
  const auto comm = first->Connect(handles, absl::Seconds(60));
  EXPECT_TRUE(comm.ok()) << comm.status();
  dialer.join();
}

TEST_F(ShmConnectTest, AbortEndsConnecting) {
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  const Handles handles = {first->handle(), second->handle()};
  std::thread aborter([&] {
    first->Abort("enough");
    first->Abort("more than enough");
  });
  EXPECT_EQ(first->Connect(handles, absl::InfiniteDuration()).status(),
            absl::AbortedError("enough"));
  aborter.join();
}

// Two kernels have different boot ids. Two network namespaces of one kernel,
// as in two containers, do not see each other's sockets.
TEST_F(ShmConnectTest, TellsAnotherHostByBootAndNamespace) {
  const auto first = Prepared(0, 2);
  ShmHandle elsewhere = *ParseShmHandle(Prepared(1, 2)->handle(), 1, 2);
  for (auto change : {+[](ShmHandle& h) { h.where.boot = "another"; },
                      +[](ShmHandle& h) { h.where.network = "net:[1]"; }}) {
    const auto here = Prepared(0, 2);
    ShmHandle other = elsewhere;
    change(other);
    const absl::Status refused =
        here->Connect({here->handle(), Format(other)}, absl::Seconds(60))
            .status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "another host"))
        << refused;
    EXPECT_EQ(FailedPeer(refused), 1);
  }
}

// Pinned ranks have a core each, although each sees only its own.
TEST(CoresOfTest, CountsTheCoresOfAllRanks) {
  const ControlBlock::Shape shape{
      .size = 3, .chunk_bytes = 192, .block_bytes = 64};
  std::vector<Peer> peers(3);
  for (Peer& peer : peers) {
    peer.memory =
        *Segment::Create(ControlBlock::Bytes(shape), "a control block");
    peer.control_block = ControlBlock(peer.memory.data(), shape);
  }
  EXPECT_EQ(CoresOf(peers), 1) << "nobody published: there is one at least";
  peers[0].control_block.header().cores[0] = 1;
  peers[1].control_block.header().cores[0] = 2;
  peers[2].control_block.header().cores[3] = 1;
  EXPECT_EQ(CoresOf(peers), 3);
  for (Peer& peer : peers) peer.control_block.header().cores[0] = 3;
  EXPECT_EQ(CoresOf(peers), 3);
}

// --- Members that violate the protocol ---------------------------------------

constexpr ControlBlock::Shape kShape{
    .size = 2, .chunk_bytes = 1 << 20, .block_bytes = 1 << 16};

// The message of rendezvous.cc, repeated here on purpose.
struct WireHello {
  uint64_t magic = kControlBlockMagic;
  uint32_t version = kControlBlockVersion;
  uint32_t rank = 1;
  uint64_t group = 0;
  uint64_t token = 0;
};

// The test plays rank 1 of 2 against a real rank 0.
class Impostor {
 public:
  Impostor() {
    real_ = *Rendezvous::Open(0, kShape);
    const auto fake = *Rendezvous::Open(1, kShape);
    handles_ = {Format(real_->handle()), Format(fake->handle())};
    control_block_memory_ =
        *Segment::Create(ControlBlock::Bytes(kShape), "a fake control block");
    header().magic = kControlBlockMagic;
    header().version = kControlBlockVersion;
    header().rank = 1;
    header().size = 2;
    header().group = GroupOf(handles_);
    header().bytes = ControlBlock::Bytes(kShape);
    header().chunk_bytes = kShape.chunk_bytes;
    header().block_bytes = kShape.block_bytes;
    socket_ = **DialLocally(real_->handle().socket);
  }

  ControlBlockHeader& header() {
    return ControlBlock(control_block_memory_.data(), kShape).header();
  }
  WireHello Hello() const {
    return {.group = GroupOf(handles_), .token = real_->handle().token};
  }
  void Publish(const WireHello& hello, const std::vector<int>& files) {
    EXPECT_TRUE(SendMessage(socket_.get(), hello, files).ok());
  }
  int control_block_file() const { return control_block_memory_.fd(); }
  absl::Status ConnectAll(absl::Duration timeout = absl::Seconds(60)) {
    return real_->ConnectAll(handles_, Deadline(timeout)).status();
  }

 private:
  std::unique_ptr<Rendezvous> real_;
  Handles handles_;
  Segment control_block_memory_;
  FileDescriptor socket_;
};

TEST(ImpostorTest, WhoKnowsNoTokenIsNotHeard) {
  Impostor stranger;
  const FileDescriptor process = *OpenThisProcess();
  WireHello hello = stranger.Hello();
  ++hello.token;
  stranger.Publish(hello, {stranger.control_block_file(), process.get()});
  // The group still waits for its rank 1.
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(stranger.ConnectAll(absl::Milliseconds(20))));
}

TEST(ImpostorTest, ACorruptHeaderIsNamed) {
  const std::vector<std::function<void(ControlBlockHeader&)>> corruptions = {
      [](ControlBlockHeader& h) { h.magic = 7; },
      [](ControlBlockHeader& h) { ++h.version; },
      [](ControlBlockHeader& h) { h.rank = 0; },
      [](ControlBlockHeader& h) { h.size = 3; },
      [](ControlBlockHeader& h) { ++h.group; },
      [](ControlBlockHeader& h) { h.bytes -= 4096; },
      [](ControlBlockHeader& h) { h.chunk_bytes = 0; },
      [](ControlBlockHeader& h) { h.block_bytes = 1; }};
  for (const auto& corrupt : corruptions) {
    Impostor impostor;
    const FileDescriptor process = *OpenThisProcess();
    corrupt(impostor.header());
    impostor.Publish(impostor.Hello(),
                     {impostor.control_block_file(), process.get()});
    const absl::Status refused = impostor.ConnectAll();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_EQ(FailedPeer(refused), 1) << refused;
  }
}

TEST(ImpostorTest, AControlBlockThatCouldBeCutShortIsRefused) {
  Impostor impostor;
  const FileDescriptor process = *OpenThisProcess();
  FileDescriptor file(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), ControlBlock::Bytes(kShape)), 0);
  impostor.Publish(impostor.Hello(), {file.get(), process.get()});
  const absl::Status refused = impostor.ConnectAll();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_EQ(FailedPeer(refused), 1);
}

TEST(ImpostorTest, WhoSendsNoControlBlockIsNoMember) {
  Impostor impostor;
  impostor.Publish(impostor.Hello(), {});
  const absl::Status refused = impostor.ConnectAll();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
}

// Neither when it accepts the connection (0), nor when it receives the files.
TEST(ImpostorTest, WhoMayOpenNoMoreFilesBlamesNobody) {
  for (const int more : {0, 1}) {
    Impostor impostor;
    const FileDescriptor process = *OpenThisProcess();
    impostor.Publish(impostor.Hello(),
                     {impostor.control_block_file(), process.get()});
    const FdLimit few(more);
    const absl::Status refused = impostor.ConnectAll();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_FALSE(FailedPeer(refused).has_value()) << refused;
  }
}

// The peer claims to have written its number, but not to this memory.
TEST(ImpostorTest, AProbeThatDoesNotArriveProvesAnotherHost) {
  Impostor impostor;
  const FileDescriptor process = *OpenThisProcess();
  impostor.Publish(impostor.Hello(),
                   {impostor.control_block_file(), process.get()});
  impostor.Publish(impostor.Hello(), {});
  const absl::Status refused = impostor.ConnectAll();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "shares no memory"))
      << refused;
  EXPECT_EQ(FailedPeer(refused), 1);
}

}  // namespace
}  // namespace lockstep::transport

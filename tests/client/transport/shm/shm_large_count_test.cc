// Counts beyond 2^31, with little memory: all but the end of a buffer is the
// same piece of memory, mapped repeatedly.
//
//   addresses   [ piece | piece | ... | piece | tail ]     2 GiB and more
//   memory      [ piece ]                     [ tail ]     some MiB

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

constexpr size_t kPiece = 64 << 20;
constexpr size_t kPieces = 32;  // 2^31 bytes
constexpr size_t kTail = 1 << 20;
constexpr size_t kCount = kPieces * kPiece + kTail;

class FoldedBuffer {
 public:
  explicit FoldedBuffer(uint8_t value) {
    FileDescriptor file(memfd_create("reduced", 0));
    Check(ftruncate(file.get(), kPiece + kTail) == 0, "no memory file");
    space_ = mmap(nullptr, kCount, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Check(space_ != MAP_FAILED, "no addresses");
    for (size_t i = 0; i <= kPieces; ++i) {
      const bool tail = i == kPieces;
      void* const mapped = mmap(data() + i * kPiece, tail ? kTail : kPiece,
                                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                file.get(), tail ? kPiece : 0);
      Check(mapped != MAP_FAILED, "no mapping");
    }
    std::memset(data(), value, kPiece);
    std::memset(tail(), value, kTail);
  }
  ~FoldedBuffer() { munmap(space_, kCount); }

  uint8_t* data() const { return static_cast<uint8_t*>(space_); }
  uint8_t* tail() const { return data() + kPieces * kPiece; }
  bool Holds(uint8_t value) const {
    const auto is = [value](uint8_t byte) { return byte == value; };
    return std::all_of(data(), data() + kPiece, is) &&
           std::all_of(tail(), tail() + kTail, is);
  }

 private:
  void* space_;
};

TEST(ShmLargeCountTest, MovesAndReducesMoreThanTwoToThe31Elements) {
  constexpr int kRanks = 2;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<std::unique_ptr<transport::PendingGroup>> pending;
  std::vector<std::string> handles;
  for (int rank = 0; rank < kRanks; ++rank) {
    transports.push_back(transport::MakeShmTransport());
    pending.push_back(*transports.back()->Prepare(
        {.name = "large", .rank = rank, .size = kRanks}));
    handles.push_back(pending.back()->handle());
  }
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      auto comm = *pending[rank]->Connect(handles, absl::Seconds(60));
      HostStream stream;
      const FoldedBuffer in(static_cast<uint8_t>(3 + rank));
      const FoldedBuffer out(0);
      if (!kUnderSanitizer) {
        ASSERT_TRUE(comm->AllReduce(in.data(), out.data(), kCount, DType::kU8,
                                    ReduceOp::kSum, stream)
                        .ok());
        ASSERT_TRUE(stream.Synchronize().ok());
        EXPECT_TRUE(out.Holds(3 + 4));
      }
      ASSERT_TRUE((rank == 0
                       ? comm->Send(in.data(), kCount, DType::kU8, 1, stream)
                       : comm->Recv(out.data(), kCount, DType::kU8, 0, stream))
                      .ok());
      ASSERT_TRUE(stream.Synchronize().ok());
      EXPECT_TRUE(rank == 0 || out.Holds(3));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace lockstep

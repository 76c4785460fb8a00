// The parts of the shared-memory transport: segments, the arena, the registry,
// handles.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/available_memory.h"
#include "client/transport/shm/segment.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_handle.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

bool Mentions(const absl::Status& status, absl::string_view text) {
  return absl::StrContains(status.message(), text);
}

// --- Available memory --------------------------------------------------------

TEST(AvailableMemoryTest, ReadsWhatTheKernelSays) {
  EXPECT_EQ(MachineAvailable("MemTotal: 100 kB\nMemAvailable:   7 kB\n"),
            7u * 1024);
  EXPECT_EQ(MachineAvailable(""), UINT64_MAX);
  EXPECT_EQ(GroupAvailable("max\n", "5\n", ""), UINT64_MAX);
  EXPECT_EQ(GroupAvailable("", "", ""), UINT64_MAX);
  EXPECT_EQ(GroupAvailable("100\n", "60\n", ""), 40u);
  // The page cache is reclaimable.
  EXPECT_EQ(GroupAvailable("100\n", "60\n", "anon 9\ninactive_file 20\n"), 60u);
  EXPECT_EQ(GroupAvailable("100\n", "160\n", "inactive_file 20\n"), 0u);
  EXPECT_GT(AvailableMemory(), 0u);
}

// --- Segments ----------------------------------------------------------------

TEST(SegmentTest, IsTheSameMemoryForWhoMapsIt) {
  auto segment = Segment::Create(8192, "a test");
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(segment->data()[8191], std::byte{0});
  auto other = Segment::Map(FileDescriptor(dup(segment->fd())), 8192);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_NE(other->data(), segment->data());
  other->data()[5000] = std::byte{42};
  EXPECT_EQ(segment->data()[5000], std::byte{42});
}

TEST(SegmentTest, AColourShiftsItByPagesAndChangesNothingElse) {
  auto segment = Segment::Create(8192, "a test");
  ASSERT_TRUE(segment.ok());
  for (size_t page_offset :
       {size_t{1}, Segment::kPageOffsets - 1, Segment::kPageOffsets}) {
    auto other = Segment::Map(FileDescriptor(dup(segment->fd())), 8192,
                              Lookup::kEachLater, page_offset);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other->data()) % 4096, 0u);
    other->data()[8191] = std::byte(page_offset + 1);
    EXPECT_EQ(segment->data()[8191], std::byte(page_offset + 1));
  }
}

TEST(SegmentTest, SaysHowMuchIsNeededAndHowMuchIsThere) {
  constexpr size_t kPetabyte = size_t{1} << 50;
  const absl::Status none = Segment::Create(kPetabyte, "a test").status();
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
  EXPECT_TRUE(Mentions(none, absl::StrCat(kPetabyte, " bytes are needed")))
      << none;
  EXPECT_TRUE(Mentions(none, "are there")) << none;
}

// Otherwise the kernel sends SIGXFSZ, which ends the process.
TEST(SegmentTest, HeedsTheLimitOfFileSizes) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status none = Segment::Create(2 << 20, "a test").status();
  EXPECT_TRUE(Segment::Create(1 << 20, "a test").ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
}

TEST(SegmentTest, CannotBeCutShortUnderWhoHasMappedIt) {
  auto segment = Segment::Create(8192, "a test");
  ASSERT_TRUE(segment.ok());
  EXPECT_NE(ftruncate(segment->fd(), 0), 0);
  // A file that could be truncated is not mapped either.
  FileDescriptor unsealed(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(
      Segment::Map(std::move(unsealed), 8192).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Segment::Map(FileDescriptor(dup(segment->fd())), 4096).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Segment::Map(FileDescriptor(open("/dev/null", O_RDWR)), 8192).status()));
}

TEST(SegmentTest, RenewedItHasTheSameBytesAtTheSameAddressForItsOwnerAlone) {
  auto segment = Segment::Create(8192, "a test");
  ASSERT_TRUE(segment.ok());
  auto other = Segment::Map(FileDescriptor(dup(segment->fd())), 8192);
  ASSERT_TRUE(other.ok());
  std::byte* const address = segment->data();
  std::memset(address, 3, 8192);
  ASSERT_TRUE(segment->Renew("a test").ok());
  EXPECT_EQ(segment->data(), address);
  EXPECT_EQ(segment->data()[4321], std::byte{3});
  other->data()[4321] = std::byte{9};
  EXPECT_EQ(segment->data()[4321], std::byte{3});
}

TEST(SegmentTest, RenewedPieceByPieceItLeavesNothingInTheOldPages) {
  constexpr size_t kBytes = (130 << 20) + 8192;  // three pieces
  auto segment = Segment::Create(kBytes, "a test");
  ASSERT_TRUE(segment.ok()) << segment.status();
  const FileDescriptor old(dup(segment->fd()));
  auto other = Segment::Map(FileDescriptor(dup(old.get())), kBytes);
  ASSERT_TRUE(other.ok());
  uint64_t* const words = reinterpret_cast<uint64_t*>(segment->data());
  const size_t count = kBytes / sizeof *words;
  for (size_t i = 0; i < count; i += 509) words[i] = i + 1;
  ASSERT_EQ(segment->Renew("a test"), absl::OkStatus());
  size_t lost = 0;
  for (size_t i = 0; i < count; i += 509) lost += words[i] != i + 1;
  EXPECT_EQ(lost, 0u);
  struct stat file {};
  ASSERT_EQ(fstat(old.get(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0) << "memory is held twice";
  other->data()[kBytes - 1] = std::byte{9};
  EXPECT_EQ(segment->data()[kBytes - 1], std::byte{0});
  // A file with holes is not mapped.
  EXPECT_TRUE(absl::IsInvalidArgument(
      Segment::Map(FileDescriptor(dup(old.get())), kBytes).status()));
}

// --- The arena ---------------------------------------------------------------

bool AllZero(const ArenaBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(SharedArenaTest, GivesAlignedZeroedMemoryOfAnySize) {
  const auto registry = std::make_shared<SegmentRegistry>();
  const std::unique_ptr<Arena> arena = MakeSharedArena(registry);
  for (size_t bytes :
       {1, 255, 256, 4097, 1 << 20, (1 << 20) + 1, 9 << 20, 3 << 10}) {
    for (int round = 0; round < 2; ++round) {
      absl::StatusOr<ArenaBuffer> buffer = arena->Allocate(bytes);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Arena::kAlignment,
                0u);
      EXPECT_TRUE(AllZero(*buffer)) << bytes;
      std::memset(buffer->data(), 0xff, bytes);
      EXPECT_NE(registry->Find(buffer->data(), bytes).segment, nullptr);
    }
  }
}

TEST(SharedArenaTest, RefusesWhatCannotBe) {
  const auto arena = MakeSharedArena(std::make_shared<SegmentRegistry>());
  EXPECT_TRUE(absl::IsInvalidArgument(arena->Allocate(0).status()));
  for (size_t bytes : {size_t{1} << 50, SIZE_MAX, SIZE_MAX - 4096}) {
    EXPECT_TRUE(absl::IsResourceExhausted(arena->Allocate(bytes).status()));
  }
}

TEST(SharedArenaTest, ABufferOutlivesItsArenaAndItsBook) {
  std::optional<ArenaBuffer> buffer;
  {
    auto registry = std::make_shared<SegmentRegistry>();
    buffer = *MakeSharedArena(registry)->Allocate(2 << 20);
  }
  buffer->as<double>()[1000] = 2.5;
  EXPECT_EQ(buffer->as<double>()[1000], 2.5);
}

TEST(SegmentRegistryTest, FindsWhatLiesWhollyInASegment) {
  const auto registry = std::make_shared<SegmentRegistry>();
  const auto arena = MakeSharedArena(registry);
  auto buffer = *arena->Allocate(2 << 20);
  const auto found = registry->Find(buffer.data() + 100, 5000);
  ASSERT_NE(found.segment, nullptr);
  EXPECT_EQ(found.segment->memory.data() + found.offset, buffer.data() + 100);
  EXPECT_NE(registry->Find(buffer.data(), 2 << 20).segment, nullptr);
  EXPECT_EQ(registry->Find(buffer.data(), (2 << 20) + 1).segment, nullptr);
  EXPECT_EQ(registry->Find(buffer.data() - 1, 1).segment, nullptr);
  EXPECT_EQ(registry->Find(&buffer, 1).segment, nullptr);
}

TEST(SegmentRegistryTest, ForgetsAndCountsWhatIsReleased) {
  const auto registry = std::make_shared<SegmentRegistry>();
  const auto arena = MakeSharedArena(registry);
  auto buffer = *arena->Allocate(2 << 20);
  const std::byte* const data = buffer.data();
  EXPECT_EQ(registry->releases(), 0u);
  buffer = ArenaBuffer();
  EXPECT_EQ(registry->releases(), 1u);
  EXPECT_EQ(registry->Find(data, 1).segment, nullptr);
}

TEST(SegmentRegistryTest, ARenewedSegmentHasAnotherId) {
  const auto registry = std::make_shared<SegmentRegistry>();
  const auto segment = *registry->Create(4096);
  const uint64_t id = segment->id;
  registry->Renew(*segment, id);
  const uint64_t next = segment->id;
  EXPECT_NE(next, id);
  registry->Renew(*segment, id);
  EXPECT_EQ(segment->id, next) << "somebody else has done it";
  EXPECT_EQ(registry->Sound(), absl::OkStatus());
}

// Find also looks into a segment for an address below it.
TEST(SegmentRegistryTest, MayLoseASegmentWhileSomebodyLooks) {
  const auto registry = std::make_shared<SegmentRegistry>();
  std::atomic<bool> over{false};
  std::thread looks([&] {
    while (!over) {
      EXPECT_EQ(registry->Find(registry.get(), 1).segment, nullptr);
    }
  });
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(registry->Create(4096).ok());
  over = true;
  looks.join();
}

TEST(SegmentRegistryTest, WhatCannotBeRenewedIsLentNoMoreAndIsSaid) {
  const auto registry = std::make_shared<SegmentRegistry>();
  auto segment = *registry->Create(1 << 20);
  std::byte* const data = segment->memory.data();
  data[5] = std::byte{5};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  registry->Renew(*segment, segment->id);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(data[5], std::byte{5});
  EXPECT_EQ(registry->Find(data, 1).segment, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(registry->Sound()));
  EXPECT_TRUE(Mentions(registry->Sound(), "may still write"))
      << registry->Sound();
  segment = nullptr;
  EXPECT_EQ(registry->Sound(), absl::OkStatus());
}

// --- Handles -----------------------------------------------------------------

TEST(ShmHandleTest, ReadsWhatItWrote) {
  const ShmHandle handle{.rank = 2,
                         .size = 5,
                         .where = EndpointOfThisProcess(),
                         .socket = "lockstep-x",
                         .token = 0xfedcba9876543210};
  const auto read = ParseShmHandle(Format(handle), 2, 5);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, handle);
  for (const std::string& text :
       {Format(handle).substr(1), Format(handle) + " more", std::string()}) {
    const absl::Status refused = ParseShmHandle(text, 2, 5).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << text;
    EXPECT_EQ(FailedPeer(refused), 2);
  }
  EXPECT_FALSE(ParseShmHandle(Format(handle), 1, 5).ok());
  EXPECT_FALSE(ParseShmHandle(Format(handle), 2, 4).ok());
}

TEST(ShmHandleTest, AGroupIsItsHandlesInTheirOrder) {
  EXPECT_EQ(GroupOf({"a", "b"}), GroupOf({"a", "b"}));
  EXPECT_NE(GroupOf({"a", "b"}), GroupOf({"b", "a"}));
  EXPECT_NE(GroupOf({"a", "b"}), GroupOf({"ab"}));
}

}  // namespace
}  // namespace lockstep::transport

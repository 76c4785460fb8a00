// The shared-memory transport, held to the suite of the interface: with private
// buffers, and with buffers in the arena.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "client/transport/checked_all_reduce.h"
#include "client/transport/shm/shm.h"
#include "client/transport/slices.h"
#include "gtest/gtest.h"
#include "kernels/finite_check.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"
#include "tests/support/arena_communicator.h"
#include "tests/support/slow.h"

namespace lockstep {
namespace {

using transport::MakeShmTransport;
using transport::Transport;
using MakeTransport = std::function<std::unique_ptr<Transport>()>;

// Each rank has a transport of its own, as a process does.
class ShmWorld final : public conformance::World {
 public:
  explicit ShmWorld(MakeTransport make) : make_(std::move(make)) {}

  Transport& at(int rank) override {
    auto& transport = transports_[rank];
    if (transport == nullptr) transport = make_();
    return *transport;
  }

 private:
  const MakeTransport make_;
  std::map<int, std::unique_ptr<Transport>> transports_;
};

// Ranks that outnumber the cores wait for each other's turns, all the more
// under a sanitizer: there one size that is no power of two is enough.
std::vector<conformance::Case> CasesOver(const MakeTransport& make,
                                         const std::set<int>& sizes) {
  std::vector<conformance::Case> cases =
      conformance::Cases([make] { return std::make_unique<ShmWorld>(make); });
  std::erase_if(cases, [&](const conformance::Case& one) {
    return sizes.count(one.size) == 0 || (kIsSlow && one.size != 3);
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(ShmPrivate, CommunicatorConformance,
                         testing::ValuesIn(CasesOver(MakeShmTransport,
                                                     {1, 2, 3, 4, 8})),
                         conformance::CaseName);

INSTANTIATE_TEST_SUITE_P(
    ShmArena, CommunicatorConformance,
    testing::ValuesIn(CasesOver(
        [] { return MakeArenaTransport(MakeShmTransport()); }, {2, 3, 8})),
    conformance::CaseName);

// --- Checked all-reduce ------------------------------------------------------

struct Buffer {
  DType dtype;
  size_t count;    // the last 3 not checked
  bool in_arena;   // else private
  bool all_check;  // else rank 0 wants no check
};

// What rank `rank` of 3 finds, beside the two passes that it stands for.
void ExpectTwoPasses(const Buffer& buffer, int rank, Transport& transport,
                     Communicator& comm) {
  ASSERT_TRUE(transport::CanCheck(comm));
  const conformance::Values in = conformance::Input(
      buffer.dtype, buffer.count, conformance::Draw::kWild, 7, rank);
  const auto arena = transport.MakeArena();
  const ArenaBuffer shared = *arena->Allocate(in.bytes());
  conformance::Values own = in;
  void* const data = buffer.in_arena ? shared.data() : own.data();
  std::memcpy(data, in.data(), in.bytes());

  const size_t checked = buffer.count - 3;
  kernels::FiniteCheck check{.sum_of_squares = 1, .non_finite = 2};
  HostStream stream;
  if (rank > 0 || buffer.all_check) {
    ASSERT_TRUE(transport::CheckedAllReduce(comm, data, buffer.count,
                                            buffer.dtype, ReduceOp::kMean,
                                            checked, &check, stream)
                    .ok());
  } else {
    ASSERT_TRUE(comm.AllReduce(data, data, buffer.count, buffer.dtype,
                               ReduceOp::kMean, stream)
                    .ok());
  }
  ASSERT_TRUE(stream.Synchronize().ok()) << comm.status();
  const conformance::Values want =
      conformance::Reduced(buffer.dtype, buffer.count, conformance::Draw::kWild,
                           7, 3, ReduceOp::kMean);
  EXPECT_EQ(std::memcmp(data, want.data(), want.bytes()), 0);

  kernels::FiniteCheck expected{.sum_of_squares = 1, .non_finite = 2};
  if (rank > 0 || buffer.all_check) {
    const transport::Range slice =
        transport::FoldSlice(buffer.count, SizeOf(buffer.dtype), 3, rank);
    const size_t end = std::min(slice.begin + slice.count, checked);
    const kernels::ElementRange range{slice.begin,
                                      end - std::min(end, slice.begin)};
    kernels::AddFiniteCheck(data, buffer.dtype, {&range, 1}, 1.0, &expected);
  }
  EXPECT_EQ(check.sum_of_squares, expected.sum_of_squares)
      << Name(buffer.dtype) << " x " << buffer.count << ", rank " << rank;
  EXPECT_EQ(check.non_finite, expected.non_finite);
}

// In a cell, in one piece, in many; in the arena or through the stages.
TEST(ShmCheckTest, AnAllReduceChecksTheSliceThatItFolds) {
  ShmWorld world(MakeShmTransport);
  const auto group = conformance::Connect(world, 3, "checked");
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (size_t count : {5, 900, 40'000, 500'001}) {
      for (bool in_arena : {true, false}) {
        for (bool all_check : {true, false}) {
          const Buffer buffer{dtype, count, in_arena, all_check};
          std::vector<std::thread> ranks;
          for (int rank = 0; rank < 3; ++rank) {
            ranks.emplace_back([&, rank, &at = world.at(rank)] {
              ExpectTwoPasses(buffer, rank, at, *group[rank]);
            });
          }
          for (std::thread& rank : ranks) rank.join();
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

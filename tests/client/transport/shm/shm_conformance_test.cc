// Runs the conformance suite of the transport interface on shared memory, with
// private buffers and with buffers in the arena.

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/common/slices.h"
#include "client/transport/extended_collectives.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "kernels/finite_check.h"
#include "kernels/reduce_pairs.h"
#include "kernels/sum_tree.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"
#include "tests/support/arena_communicator.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using transport::Transport;
using MakeTransport = std::function<std::unique_ptr<Transport>()>;

std::unique_ptr<Transport> MakeShmTransport() {
  return transport::MakeShmTransport();
}

// Each rank has its own transport, as a process does.
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

// With more ranks than cores, ranks wait for each other to be scheduled. Under
// a sanitizer that is slow, so one size that is no power of two is enough.
std::vector<conformance::Case> CasesOver(
    const MakeTransport& make, const std::set<int>& sizes,
    const conformance::Promises& promises = {}) {
  std::vector<conformance::Case> cases = conformance::Cases(
      [make] { return std::make_unique<ShmWorld>(make); }, promises);
  std::erase_if(cases, [&](const conformance::Case& one) {
    return sizes.count(one.size) == 0 || (kUnderSanitizer && one.size != 3);
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(ShmPrivate, CommunicatorConformance,
                         testing::ValuesIn(CasesOver(MakeShmTransport,
                                                     {1, 2, 3, 4, 8},
                                                     {.moves_boxes = true})),
                         conformance::CaseName);

INSTANTIATE_TEST_SUITE_P(
    ShmArena, CommunicatorConformance,
    testing::ValuesIn(CasesOver(
        [] { return MakeArenaTransport(MakeShmTransport()); }, {2, 3, 8})),
    conformance::CaseName);

// --- Checked all-reduce ------------------------------------------------------

struct Buffer {
  DType dtype;
  size_t count;    // the last 3 are not checked
  bool in_arena;   // else private
  bool all_check;  // else all except rank 0 check
  bool in_pairs;   // else in rank order, a mean
};

constexpr double kFactor = 0.125;  // for sums in pairs

// Up to three parts of the slice that `rank` reduces. The first begins with the
// slice and has whole runs. The second follows it. There is a gap before the
// third.
std::vector<transport::SliceRange> PartsOf(const Buffer& buffer, int ranks,
                                           int rank) {
  const transport::SliceRange slice =
      buffer.in_pairs ? transport::PairsSlice(buffer.count, ranks, rank)
                      : transport::ReduceSliceOf(
                            buffer.count, SizeOf(buffer.dtype), ranks, rank);
  const size_t end = std::min(slice.begin + slice.count, buffer.count - 3);
  if (end <= slice.begin) return {};
  const size_t run = kernels::kSumRun;
  const size_t second = slice.begin + 2 * run;
  const size_t third = second + 3 * run;
  if (end <= third) return {{slice.begin, end - slice.begin}};
  return {
      {slice.begin, 2 * run}, {second, run + run / 2}, {third, end - third}};
}

class CheckedMember {
 public:
  CheckedMember(const Buffer& buffer, int ranks, int rank)
      : buffer_(buffer),
        rank_(rank),
        parts_(rank > 0 || buffer.all_check
                   ? PartsOf(buffer, ranks, rank)
                   : std::vector<transport::SliceRange>()),
        totals_(parts_.size(), {.sum_of_squares = 1, .non_finite = 2}) {}

  // Reduces `own`, and expects the bits of a reduction followed by a check.
  void ExpectTwoPasses(Transport& transport, Communicator& comm,
                       conformance::Values own,
                       const conformance::Values& want) {
    ASSERT_TRUE(transport::CanCheck(comm));
    const auto arena = transport.MakeArena();
    const ArenaBuffer shared = *arena->Allocate(own.bytes());
    void* const data = buffer_.in_arena ? shared.data() : own.data();
    std::memcpy(data, own.data(), own.bytes());
    HostStream stream;
    ASSERT_TRUE(Reduce(comm, data, stream).ok());
    ASSERT_TRUE(stream.Synchronize().ok()) << comm.status();
    EXPECT_EQ(std::memcmp(data, want.data(), want.bytes()), 0);
    for (size_t p = 0; p < parts_.size(); ++p) ExpectPart(p, data);
  }

 private:
  absl::Status Reduce(Communicator& comm, void* data, HostStream& stream) {
    const auto& [dtype, count, in_arena, all_check, in_pairs] = buffer_;
    std::vector<transport::CheckedPart> checks;
    for (size_t p = 0; p < parts_.size(); ++p) {
      checks.push_back({parts_[p], &totals_[p]});
    }
    if (rank_ > 0 || all_check) {
      return in_pairs
                 ? transport::CheckedAllReducePairs(comm, data, count, dtype,
                                                    kFactor, checks, stream)
                 : transport::CheckedAllReduce(comm, data, count, dtype,
                                               ReduceOp::kMean, checks, stream);
    }
    return in_pairs ? transport::AllReducePairs(comm, data, data, count, dtype,
                                                kFactor, stream)
                    : comm.AllReduce(data, data, count, dtype, ReduceOp::kMean,
                                     stream);
  }

  void ExpectPart(size_t p, const void* data) {
    kernels::FiniteCheck expected{.sum_of_squares = 1, .non_finite = 2};
    const kernels::ElementRange range{parts_[p].begin, parts_[p].count};
    kernels::AddFiniteCheck(data, buffer_.dtype, {&range, 1}, 1.0, &expected);
    EXPECT_EQ(totals_[p].sum_of_squares, expected.sum_of_squares)
        << Name(buffer_.dtype) << " x " << buffer_.count << ", rank " << rank_
        << ", part " << p;
    EXPECT_EQ(totals_[p].non_finite, expected.non_finite);
  }

  const Buffer buffer_;
  const int rank_;
  const std::vector<transport::SliceRange> parts_;
  std::vector<kernels::FiniteCheck> totals_;
};

// In a slot, in one piece, in many; in the arena or through the stages.
class ShmCheckTest : public testing::TestWithParam<DType> {
 protected:
  using Want = std::function<conformance::Values(size_t count)>;

  static conformance::Values Given(DType dtype, size_t count, int rank) {
    return conformance::Input(dtype, count, conformance::Draw::kWild, 7, rank);
  }

  void ExpectChecks(int ranks, bool in_pairs, const Want& want) {
    ShmWorld world(MakeShmTransport);
    const auto group = conformance::Connect(world, ranks, "checked");
    for (size_t count : {5, 900, 40'000, 500'001}) {
      const conformance::Values result = want(count);
      for (bool in_arena : {true, false}) {
        for (bool all_check : {true, false}) {
          std::vector<std::thread> threads;
          for (int rank = 0; rank < ranks; ++rank) {
            threads.emplace_back([&, rank, &at = world.at(rank)] {
              CheckedMember({GetParam(), count, in_arena, all_check, in_pairs},
                            ranks, rank)
                  .ExpectTwoPasses(at, *group[rank],
                                   Given(GetParam(), count, rank), result);
            });
          }
          for (std::thread& thread : threads) thread.join();
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Of, ShmCheckTest,
                         testing::Values(DType::kF32, DType::kF64,
                                         DType::kBF16),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(Name(info.param));
                         });

TEST_P(ShmCheckTest, AnAllReduceChecksPartsOfWhatItFolds) {
  ExpectChecks(3, /*in_pairs=*/false, [](size_t count) {
    return conformance::Reduced(GetParam(), count, conformance::Draw::kWild, 7,
                                3, ReduceOp::kMean);
  });
}

class ShmPairsCheckTest : public ShmCheckTest {};

INSTANTIATE_TEST_SUITE_P(Of, ShmPairsCheckTest,
                         testing::Values(DType::kF32, DType::kF64),
                         [](const testing::TestParamInfo<DType>& info) {
                           return std::string(Name(info.param));
                         });

TEST_P(ShmPairsCheckTest, SoDoesASumInPairs) {
  ExpectChecks(4, /*in_pairs=*/true, [](size_t count) {
    const DType dtype = GetParam();
    std::vector<std::byte> rows;
    for (int rank = 0; rank < 4; ++rank) {
      const conformance::Values given = Given(dtype, count, rank);
      const auto* bytes = static_cast<const std::byte*>(given.data());
      rows.insert(rows.end(), bytes, bytes + given.bytes());
    }
    conformance::Values sum(dtype, count);
    kernels::ReducePairs(rows.data(), 4, dtype, kFactor, sum.data(), dtype,
                         count);
    return sum;
  });
}

TEST(ShmChecksTest, WhatAnotherRankFoldsIsRefused) {
  ShmWorld world(MakeShmTransport);
  const auto group = conformance::Connect(world, 2, "refused");
  std::vector<float> data(100);
  kernels::FiniteCheck total;
  HostStream stream;
  const auto check = [&](std::vector<transport::CheckedPart> parts) {
    return transport::CheckedAllReduce(*group[0], data.data(), 100, DType::kF32,
                                       ReduceOp::kSum, std::move(parts), stream)
        .code();
  };
  EXPECT_EQ(check({{{48, 17}, &total}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{{64, 1}, &total}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{{8, 8}, &total}, {{0, 8}, &total}}),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep

// Which results lockstep-perf counts as wrong.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/inproc/inproc.h"
#include "tools/perf/halo_operation.h"
#include "tools/perf/operation.h"

namespace lockstep::perf {
namespace {

constexpr int kRanks = 3;

// Calls body(rank, communicator) for all ranks of a group concurrently.
template <typename F>
void Together(F body) {
  transport::InprocHub hub;
  const auto transport = transport::MakeInprocTransport(&hub);
  std::vector<std::unique_ptr<transport::PendingGroup>> pending;
  std::vector<std::string> handles;
  for (int rank = 0; rank < kRanks; ++rank) {
    pending.push_back(
        *transport->Prepare({.name = "perf", .rank = rank, .size = kRanks}));
    handles.push_back(pending.back()->handle());
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto comm = *pending[rank]->Connect(handles, absl::Seconds(60));
      body(rank, *comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The root has what it broadcasts; the others have no result of a reduction or
// a gather to a root.
bool NeedsNoRun(const std::string& name, bool is_root) {
  if (name == "broadcast") return is_root;
  return (name == "axis.reduce" || name == "axis.gather") && !is_root;
}

TEST(PerfOperationTest, AMeanOverAnAxisIsMeasuredForFloats) {
  Together([&](int, Communicator& comm) {
    const PerfOptions options{
        .op = "axis.pmean", .ranks = kRanks, .dtype = DType::kI8};
    EXPECT_EQ(
        PerfOperation::Create(options, 900, comm, nullptr).status().code(),
        absl::StatusCode::kInvalidArgument);
  });
}

TEST(PerfOperationTest, NothingIsWrongAfterARunAndMuchBefore) {
  for (const std::string& name : OperationNames()) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kF64}) {
      if (name == "axis.pmean" && !IsFloat(dtype)) continue;
      PerfOptions options{.op = name, .ranks = kRanks, .dtype = dtype};
      Together([&](int rank, Communicator& comm) {
        auto operation = PerfOperation::Create(options, 9000, comm, nullptr);
        ASSERT_TRUE(operation.ok()) << operation.status();
        PerfOperation& op = **operation;
        HostStream stream;
        op.Fill();
        EXPECT_EQ(op.Wrong() == 0, NeedsNoRun(name, rank == options.root))
            << name;
        ASSERT_TRUE(op.Run(stream).ok());
        ASSERT_TRUE(stream.Synchronize().ok());
        ASSERT_TRUE(op.Take(stream).ok());
        EXPECT_EQ(op.Wrong(), 0u) << name << " " << Name(dtype);
      });
    }
  }
}

TEST(PerfOperationTest, SizesAreThoseOfTheWholeBuffer) {
  const auto bytes_of = [](const std::string& name, size_t bytes) {
    size_t rounded = 0;
    Together([&](int rank, Communicator& comm) {
      const PerfOptions options{.op = name, .ranks = kRanks};
      const auto op = *PerfOperation::Create(options, bytes, comm, nullptr);
      if (rank == 0) rounded = op->bytes();
    });
    return rounded;
  };
  EXPECT_EQ(bytes_of("all_reduce", 1030), 1028u);
  EXPECT_EQ(bytes_of("all_gather", 1030), 1020u);  // 85 elements on each rank
  EXPECT_EQ(bytes_of("barrier", 0), 0u);
}

TEST(PerfOperationTest, BusBandwidthIsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor("all_gather", 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor("reduce_scatter", 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor("all_to_all", 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor("broadcast", 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor("sendrecv", 4), 1);
}

TEST(PerfOptionsTest, BlocksAreAsEqualAsPossibleOrAsGiven) {
  const auto blocks_of = [](int ranks, const std::string& shape,
                            const std::string& cut) {
    return BlocksOf({.op = "halo", .ranks = ranks, .shape = shape, .cut = cut});
  };
  using Blocks = std::vector<int64_t>;
  EXPECT_EQ(blocks_of(4, "10x10", ""), (Blocks{2, 2}));
  EXPECT_EQ(blocks_of(6, "10x10", ""), (Blocks{3, 2}));
  EXPECT_EQ(blocks_of(12, "9x9x9", ""), (Blocks{3, 2, 2}));
  EXPECT_EQ(blocks_of(1, "10x10", ""), (Blocks{1, 1}));
  EXPECT_EQ(blocks_of(4, "10x10", "1x4"), (Blocks{1, 4}));
  EXPECT_EQ(blocks_of(4, "10x10", "2x3"), Blocks());
  EXPECT_EQ(blocks_of(4, "10x10", "4"), Blocks());
  EXPECT_EQ(blocks_of(4, "10x10", "9223372036854775807x2"), Blocks());
}

TEST(PerfOptionsTest, OnlyDimensionsWithAHaloAreCut) {
  const auto blocks_of = [](const std::string& width) {
    return BlocksOf(
        {.op = "halo", .ranks = 4, .shape = "2x16x64x64", .width = width});
  };
  using Blocks = std::vector<int64_t>;
  EXPECT_EQ(blocks_of("0x0x1x1"), (Blocks{1, 1, 2, 2}));
  EXPECT_EQ(blocks_of("0x0x0x1"), (Blocks{1, 1, 1, 4}));
  EXPECT_EQ(blocks_of("0"), (Blocks{2, 2, 1, 1}));
}

TEST(PerfOptionsTest, SizesGrowByAFactorOrAStep) {
  PerfOptions options{.op = "all_reduce", .min_bytes = 1024, .max_bytes = 9000};
  options.factor = 4;
  EXPECT_EQ(options.Sizes(), (std::vector<size_t>{1024, 4096}));
  options.step_bytes = 4000;
  EXPECT_EQ(options.Sizes(), (std::vector<size_t>{1024, 5024}));
  options.op = "barrier";
  EXPECT_EQ(options.Sizes(), std::vector<size_t>{0});
}

TEST(PerfOptionsTest, SizesWithoutAnElementOfEachRankAreLeftOut) {
  for (const std::string& op : OperationNames()) {
    if (op == "barrier" || IsHaloOperation(op)) continue;  // one size
    const PerfOptions options{
        .op = op, .min_bytes = 1, .max_bytes = 64, .ranks = kRanks};
    Together([&](int, Communicator& comm) {
      for (size_t bytes : options.Sizes()) {
        const auto operation =
            PerfOperation::Create(options, bytes, comm, nullptr);
        ASSERT_TRUE(operation.ok()) << operation.status();
        EXPECT_GT((*operation)->count(), 0u) << op << " " << bytes;
      }
      const auto under = PerfOperation::Create(options, LeastBytes(options) - 1,
                                               comm, nullptr);
      ASSERT_TRUE(under.ok()) << under.status();
      EXPECT_EQ((*under)->count(), 0u) << op;
    });
  }
}

}  // namespace
}  // namespace lockstep::perf

// Conformance: AllReduce and ReduceScatter.

#include <bit>
#include <limits>

#include "client/transport/extended_collectives.h"
#include "kernels/reduce_pairs_ref.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Draw;
using conformance::Input;
using conformance::Member;
using conformance::OpsOf;
using conformance::Reduced;
using conformance::Values;

// A size that is a multiple of no group size but 1; then the smallest sizes.
constexpr size_t kOdd = 1001;
constexpr size_t kSmallest[] = {0, 1, 7};
// Divided into more chunks than are in flight at once.
constexpr size_t kLargeCount = kUnderSanitizer ? 400'023 : 1'100'023;

// Reference values are the slow part of a test, so they are computed once for
// all ranks.
struct Job {
  Job(DType dtype, ReduceOp op, size_t count, Draw draw, int size)
      : dtype(dtype),
        op(op),
        count(count),
        draw(draw),
        expected(Reduced(dtype, count, draw, count, size, op)) {}

  DType dtype;
  ReduceOp op;
  size_t count;
  Draw draw;
  Values expected;
};

std::string Named(const Job& job) {
  return std::string(Name(job.dtype)) + " " + std::string(Name(job.op)) + " " +
         std::to_string(job.count);
}

void ExpectAllReduces(Member& m, const Job& job) {
  const Values in = Input(job.dtype, job.count, job.draw, job.count, m.rank);
  Values out(job.dtype, job.count);
  Values in_place = in;
  ASSERT_TRUE(m.comm
                  .AllReduce(in.data(), out.data(), job.count, job.dtype,
                             job.op, m.stream)
                  .ok());
  ASSERT_TRUE(m.comm
                  .AllReduce(in_place.data(), in_place.data(), job.count,
                             job.dtype, job.op, m.stream)
                  .ok());
  ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
  EXPECT_TRUE(out == job.expected) << Named(job);
  EXPECT_TRUE(in_place == job.expected) << Named(job) << ", in place";
}

TEST_P(CommunicatorConformance, AllReducesEveryTypeWithEveryOp) {
  std::vector<Job> jobs;
  for (DType dtype : kTransportDTypes) {
    for (ReduceOp op : OpsOf(dtype)) {
      jobs.emplace_back(dtype, op, kOdd, Draw::kExact, size());
    }
    for (size_t count : kSmallest) {
      jobs.emplace_back(dtype, ReduceOp::kSum, count, Draw::kExact, size());
    }
  }
  Together([&](Member& m) {
    for (const Job& job : jobs) ExpectAllReduces(m, job);
  });
}

TEST_P(CommunicatorConformance, AllReducesWhatIsCutInChunks) {
  const std::vector<Job> jobs = {
      {DType::kF32, ReduceOp::kSum, kLargeCount, Draw::kExact, size()},
      {DType::kBF16, ReduceOp::kMean, kLargeCount / 5, Draw::kExact, size()},
      {DType::kU8, ReduceOp::kMax, kLargeCount / 5, Draw::kExact, size()}};
  Together([&](Member& m) {
    for (const Job& job : jobs) ExpectAllReduces(m, job);
  });
}

TEST_P(CommunicatorConformance, SumsInRankOrderAndRoundsOnce) {
  if (!promises().rank_order) return;  // it has an order of its own
  std::vector<Job> jobs;
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kProd}) {
      jobs.emplace_back(dtype, op, 501, Draw::kWild, size());
    }
    // Large enough to be divided into slices.
    jobs.emplace_back(dtype, ReduceOp::kSum, 20'001, Draw::kWild, size());
  }
  Together([&](Member& m) {
    for (const Job& job : jobs) ExpectAllReduces(m, job);
  });
}

TEST_P(CommunicatorConformance, GivesAllRanksTheSameBitsOnEveryRun) {
  for (size_t count : {size_t{1001}, size_t{200'003}}) {
    std::vector<Values> results(2 * size());
    Together([&](Member& m) {
      for (int run : {0, 1}) {
        const Values in = Input(DType::kF32, count, Draw::kWild, 3, m.rank);
        Values& out = results[run * m.size + m.rank];
        out = Values(DType::kF32, count);
        ASSERT_TRUE(m.comm
                        .AllReduce(in.data(), out.data(), count, DType::kF32,
                                   ReduceOp::kSum, m.stream)
                        .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok());
      }
    });
    for (const Values& result : results) EXPECT_TRUE(result == results[0]);
  }
}

TEST_P(CommunicatorConformance, GivesNaNWhereAnyRankHasNaN) {
  for (size_t count : {size_t{9}, size_t{100'000}}) {
    Together([&](Member& m) {
      Values in = Input(DType::kF32, count, Draw::kExact, 1, m.rank);
      // Element r is NaN on rank r only; the last element on no rank.
      in.Set(m.rank, std::numeric_limits<float>::quiet_NaN());
      for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum}) {
        Values out(DType::kF32, count);
        ASSERT_TRUE(m.comm
                        .AllReduce(in.data(), out.data(), count, DType::kF32,
                                   op, m.stream)
                        .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok());
        for (int rank = 0; rank < m.size; ++rank) {
          EXPECT_TRUE(std::isnan(out.Get<float>(rank)));
        }
        EXPECT_FALSE(std::isnan(out.Get<float>(count - 1)));
      }
    });
  }
}

TEST_P(CommunicatorConformance, MakesTheMeanByOneMultiply) {
  Together([&](Member& m) {
    // The sum is 3 * size exactly; 1/3 or 1/7 of it is not.
    Values values(DType::kF32, 1);
    values.Set(0, m.rank == 0 ? 10.0f : 1.0f);
    ASSERT_TRUE(m.comm
                    .AllReduce(values.data(), values.data(), 1, DType::kF32,
                               ReduceOp::kMean, m.stream)
                    .ok());
    ASSERT_TRUE(m.stream.Synchronize().ok());
    const float sum = 10.0f + static_cast<float>(m.size - 1);
    EXPECT_EQ(values.Get<float>(0), sum * (1.0f / static_cast<float>(m.size)));
  });
}

// A mean over some ranks, to which the other ranks contribute zeros.
TEST_P(CommunicatorConformance, DividesAMeanByWhatItIsGiven) {
  std::vector<std::pair<Values, int>> jobs;  // with the divisors
  // Exact sums, unless the transport adds in rank order.
  const Draw draw = promises().rank_order ? Draw::kWild : Draw::kExact;
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const size_t count : {0, 1, 501, 20'001}) {
      for (const int divisor : {1, 3}) {
        jobs.emplace_back(Reduced(dtype, count, draw, count, size(),
                                  ReduceOp::kMean, divisor),
                          divisor);
      }
    }
  }
  Together([&](Member& m) {
    for (const auto& [expected, divisor] : jobs) {
      const DType dtype = expected.dtype();
      const size_t count = expected.count();
      Values values = Input(dtype, count, draw, count, m.rank);
      ASSERT_TRUE(transport::AllReduceMean(m.comm, values.data(), count, dtype,
                                           divisor, m.stream)
                      .ok());
      ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
      EXPECT_TRUE(values == expected)
          << Name(dtype) << " " << count << " by " << divisor;
    }
    int64_t one = 1;
    for (const auto& [dtype, divisor] :
         {std::pair(DType::kI64, 1), std::pair(DType::kF64, 0)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(
          transport::AllReduceMean(m.comm, &one, 1, dtype, divisor, m.stream)));
    }
    // All reads of `one` from before the call have ended.
    EXPECT_TRUE(m.stream.Synchronize().ok());
  });
}

// The tree of reduce_pairs_ref.h over the ranks' inputs.
template <class T>
Values SumInPairs(DType dtype, size_t count, int size, double factor) {
  std::vector<T> rows;
  for (int rank = 0; rank < size; ++rank) {
    const Values in = Input(dtype, count, Draw::kWild, count, rank);
    for (size_t i = 0; i < count; ++i) rows.push_back(in.Get<T>(i));
  }
  std::vector<T> sum(count);
  kernels::ReducePairsRef(rows.data(), size, factor, sum.data(), count);
  Values values(dtype, count);
  for (size_t i = 0; i < count; ++i) values.Set(i, sum[i]);
  return values;
}

void ExpectSumsInPairs(Member& m, const Values& expected, double factor) {
  const DType dtype = expected.dtype();
  const size_t count = expected.count();
  const Values in = Input(dtype, count, Draw::kWild, count, m.rank);
  Values out(dtype, count);
  Values in_place = in;
  ASSERT_TRUE(transport::AllReducePairs(m.comm, in.data(), out.data(), count,
                                        dtype, factor, m.stream)
                  .ok());
  ASSERT_TRUE(transport::AllReducePairs(m.comm, in_place.data(),
                                        in_place.data(), count, dtype, factor,
                                        m.stream)
                  .ok());
  ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
  EXPECT_TRUE(out == expected) << count;
  EXPECT_TRUE(in_place == expected) << count << ", in place";
}

TEST_P(CommunicatorConformance, SumsInPairsWhereItSaysSo) {
  std::vector<std::pair<Values, double>> jobs;
  for (const size_t count : {0, 1, 7, 1001, 20'001}) {
    for (const double factor : {1.0, 0.125}) {
      jobs.emplace_back(SumInPairs<float>(DType::kF32, count, size(), factor),
                        factor);
    }
  }
  jobs.emplace_back(SumInPairs<double>(DType::kF64, 2002, size(), 1), 1);
  jobs.emplace_back(SumInPairs<float>(DType::kF32, 300'007, size(), 0.5), 0.5);
  const bool can =
      promises().sums_in_pairs && std::has_single_bit(unsigned(size()));
  Together([&](Member& m) {
    EXPECT_EQ(transport::SumsInPairs(m.comm), can);
    for (const auto& [expected, factor] : jobs) {
      if (can) ExpectSumsInPairs(m, expected, factor);
    }
    int64_t one = 1;
    const DType dtype = can ? DType::kI64 : DType::kF32;
    EXPECT_EQ(
        transport::AllReducePairs(m.comm, &one, &one, 1, dtype, 1, m.stream)
            .code(),
        can ? absl::StatusCode::kInvalidArgument
            : absl::StatusCode::kUnimplemented);
    // All reads of `one` from before the call have ended.
    EXPECT_TRUE(m.stream.Synchronize().ok());
  });
}

TEST_P(CommunicatorConformance, ReduceScattersEveryType) {
  for (DType dtype : kTransportDTypes) {
    for (size_t count : {size_t{0}, size_t{333}, size_t{70'007}}) {
      if (count > 1000 && dtype != DType::kF32 && dtype != DType::kF16)
        continue;
      const size_t all = count * size();
      const Values expected =
          Reduced(dtype, all, Draw::kExact, count, size(), ReduceOp::kSum);
      Together([&](Member& m) {
        Values in = Input(dtype, all, Draw::kExact, count, m.rank);
        Values out(dtype, count);
        ASSERT_TRUE(m.comm
                        .ReduceScatter(in.data(), out.data(), count, dtype,
                                       ReduceOp::kSum, m.stream)
                        .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok());
        const Values mine = expected.Part(m.rank * count, count);
        EXPECT_TRUE(out == mine) << Name(dtype) << " " << count;
        if (count == 0) return;
        // In place: this rank's block of `in`.
        ASSERT_TRUE(m.comm
                        .ReduceScatter(in.data(), in.at(m.rank * count), count,
                                       dtype, ReduceOp::kSum, m.stream)
                        .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok());
        EXPECT_TRUE(in.Part(m.rank * count, count) == mine)
            << Name(dtype) << " " << count << ", in place";
      });
    }
  }
}

}  // namespace
}  // namespace lockstep

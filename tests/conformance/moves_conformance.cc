// Conformance: the operations that only copy bytes.

#include <atomic>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Draw;
using conformance::Input;
using conformance::Member;
using conformance::Values;

// Empty; small enough for an announcement; in several pieces.
constexpr size_t kMovedCounts[] = {0, 333, kUnderSanitizer ? 100'007 : 300'007};

// All dtypes where that is cheap: the operations only copy bytes.
std::vector<DType> DTypesFor(size_t count) {
  if (count != 333) return {DType::kF32};
  return {std::begin(kTransportDTypes), std::end(kTransportDTypes)};
}

TEST_P(CommunicatorConformance, AllGathersEveryType) {
  for (size_t count : kMovedCounts) {
    for (DType dtype : DTypesFor(count)) {
      Together([&](Member& m) {
        Values expected(dtype, count * m.size);
        for (int r = 0; r < m.size; ++r) {
          expected.Put(r * count, Input(dtype, count, Draw::kWild, 5, r));
        }
        const Values in = Input(dtype, count, Draw::kWild, 5, m.rank);
        Values out(dtype, count * m.size);
        Values in_place(dtype, count * m.size);
        in_place.Put(m.rank * count, in);
        ASSERT_TRUE(
            m.comm.AllGather(in.data(), out.data(), count, dtype, m.stream)
                .ok());
        ASSERT_TRUE(m.comm
                        .AllGather(in_place.at(m.rank * count), in_place.data(),
                                   count, dtype, m.stream)
                        .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
        EXPECT_TRUE(out == expected) << Name(dtype) << " " << count;
        EXPECT_TRUE(in_place == expected) << Name(dtype) << " " << count;
      });
    }
  }
}

TEST_P(CommunicatorConformance, BroadcastsFromEveryRoot) {
  for (size_t count : kMovedCounts) {
    for (DType dtype : DTypesFor(count)) {
      for (int root = 0; root < size(); ++root) {
        if (dtype != DType::kF32 && root != size() / 2) continue;
        const Values expected = Input(dtype, count, Draw::kWild, 6, root);
        Together([&](Member& m) {
          Values buffer = Input(dtype, count, Draw::kWild, 6, m.rank);
          ASSERT_TRUE(
              m.comm.Broadcast(buffer.data(), count, dtype, root, m.stream)
                  .ok());
          ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
          EXPECT_TRUE(buffer == expected)
              << Name(dtype) << " " << count << " from " << root;
        });
      }
    }
  }
}

// The block that `from` sends to `to`.
Values Block(DType dtype, size_t count, int from, int to) {
  return Values(dtype, count, Draw::kWild, 7000 + 10 * from + to);
}

TEST_P(CommunicatorConformance, ExchangesBlocksAllToAll) {
  for (size_t count : kMovedCounts) {
    for (DType dtype : DTypesFor(count)) {
      Together([&](Member& m) {
        Values in(dtype, count * m.size);
        Values expected(dtype, count * m.size);
        for (int r = 0; r < m.size; ++r) {
          in.Put(r * count, Block(dtype, count, m.rank, r));
          expected.Put(r * count, Block(dtype, count, r, m.rank));
        }
        Values out(dtype, count * m.size);
        ASSERT_TRUE(
            m.comm.AllToAll(in.data(), out.data(), count, dtype, m.stream)
                .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
        EXPECT_TRUE(out == expected) << Name(dtype) << " " << count;
      });
    }
  }
}

TEST_P(CommunicatorConformance, ExchangesUnevenBlocks) {
  // Some pairs exchange nothing, others a piece and a part of one.
  const auto count_of = [](int from, int to, size_t scale) {
    return static_cast<size_t>((from * 3 + to * 5) % 4) * scale;
  };
  for (size_t scale :
       {size_t{1}, size_t{111}, size_t{kUnderSanitizer ? 50'001 : 140'001}}) {
    Together([&](Member& m) {
      std::vector<size_t> in_counts, in_offsets, out_counts, out_offsets;
      size_t in_total = 0;
      size_t out_total = 3;  // a gap that must not be written
      for (int r = 0; r < m.size; ++r) {
        in_counts.push_back(count_of(m.rank, r, scale));
        in_offsets.push_back(in_total);
        in_total += in_counts.back();
        out_counts.push_back(count_of(r, m.rank, scale));
        out_offsets.push_back(out_total);
        out_total += out_counts.back() + 2;
      }
      Values in(DType::kI32, in_total);
      Values out(DType::kI32, out_total);
      Values expected(DType::kI32, out_total);
      for (int r = 0; r < m.size; ++r) {
        in.Put(in_offsets[r], Block(DType::kI32, in_counts[r], m.rank, r));
        expected.Put(out_offsets[r],
                     Block(DType::kI32, out_counts[r], r, m.rank));
      }
      ASSERT_TRUE(m.comm
                      .AllToAllV(in.data(), in_counts, in_offsets, out.data(),
                                 out_counts, out_offsets, DType::kI32, m.stream)
                      .ok());
      ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
      EXPECT_TRUE(out == expected) << scale;
    });
  }
}

TEST_P(CommunicatorConformance, PassesBytesRoundARing) {
  if (size() == 1) return;  // a ring of one
  for (size_t count : kMovedCounts) {
    for (DType dtype : DTypesFor(count)) {
      Together([&](Member& m) {
        // Rank 0 sends first, the others receive first: no group is needed.
        const Values in = Input(dtype, count, Draw::kWild, 8, m.rank);
        Values out(dtype, count);
        const auto send = [&] {
          return m.comm.Send(in.data(), count, dtype, m.next(), m.stream);
        };
        const auto receive = [&] {
          return m.comm.Recv(out.data(), count, dtype, m.previous(), m.stream);
        };
        absl::Status called = m.rank == 0 ? send() : receive();
        called.Update(m.rank == 0 ? receive() : send());
        ASSERT_TRUE(called.ok()) << called;
        ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
        EXPECT_TRUE(out == Input(dtype, count, Draw::kWild, 8, m.previous()));
      });
    }
  }
}

TEST_P(CommunicatorConformance, KeepsTheOrderOfSendsBetweenTwoRanks) {
  if (size() == 1) return;  // no other rank
  Together([&](Member& m) {
    std::vector<int64_t> values(50);
    std::iota(values.begin(), values.end(), m.rank * 1000);
    for (int64_t& value : values) {
      if (m.rank == 0) {
        ASSERT_TRUE(m.comm.Send(&value, 1, DType::kI64, 1, m.stream).ok());
      } else if (m.rank == 1) {
        ASSERT_TRUE(m.comm.Recv(&value, 1, DType::kI64, 0, m.stream).ok());
      }
    }
    ASSERT_TRUE(m.stream.Synchronize().ok());
    if (m.rank != 1) return;
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(values[i], i);
  });
}

TEST_P(CommunicatorConformance, ABarrierHoldsUntilAllHaveCome) {
  std::atomic<int> come{0};
  Together([&](Member& m) {
    for (int round = 1; round <= 20; ++round) {
      m.Enqueue([&] { ++come; });
      ASSERT_TRUE(m.comm.Barrier(m.stream).ok());
      int seen = 0;
      m.Enqueue([&] { seen = come; });
      ASSERT_TRUE(m.comm.Barrier(m.stream).ok());
      ASSERT_TRUE(m.stream.Synchronize().ok());
      EXPECT_EQ(seen, round * m.size);
    }
  });
}

}  // namespace
}  // namespace lockstep

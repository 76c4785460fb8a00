// Conformance: concurrency and ordering of operations.

#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"

namespace lockstep {
namespace {

using conformance::Draw;
using conformance::Input;
using conformance::Member;
using conformance::Reduced;
using conformance::Values;

// Small enough to be sent in an announcement; in pieces and chunks.
constexpr size_t kCounts[] = {5, 300'001};

TEST_P(CommunicatorConformance, AGroupOfSendsAndReceivesMayBeginAnyWay) {
  for (size_t count : kCounts) {
    Together([&](Member& m) {
      // All ranks first send to all, then receive.
      const Values in = Input(DType::kF32, count, Draw::kWild, 1, m.rank);
      std::vector<Values> out(m.size, Values(DType::kF32, count));
      const absl::Status grouped = m.comm.Group([&] {
        absl::Status status;
        for (int peer = 0; peer < m.size; ++peer) {
          if (peer == m.rank) continue;
          status.Update(
              m.comm.Send(in.data(), count, DType::kF32, peer, m.stream));
        }
        for (int peer = 0; peer < m.size; ++peer) {
          if (peer == m.rank) continue;
          status.Update(m.comm.Recv(out[peer].data(), count, DType::kF32, peer,
                                    m.stream));
        }
        return status;
      });
      ASSERT_TRUE(grouped.ok()) << grouped;
      ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
      for (int peer = 0; peer < m.size; ++peer) {
        if (peer == m.rank) continue;
        EXPECT_TRUE(out[peer] ==
                    Input(DType::kF32, count, Draw::kWild, 1, peer));
      }
    });
  }
}

TEST_P(CommunicatorConformance, MembersOfAGroupDoNotWaitForEachOther) {
  if (size() == 1) return;  // no other rank
  // Rank 0 receives from the last rank in the same group in which it sends to
  // rank 1; but the last rank sends only after it has received from its
  // neighbour, and so on back to rank 1.
  for (size_t count : kCounts) {
    Together([&](Member& m) {
      Values token = Input(DType::kF32, count, Draw::kWild, 2, 0);
      if (m.rank == 0) {
        Values back(DType::kF32, count);
        ASSERT_TRUE(
            m.comm
                .Group([&] {
                  absl::Status status = m.comm.Recv(
                      back.data(), count, DType::kF32, m.previous(), m.stream);
                  status.Update(m.comm.Send(token.data(), count, DType::kF32,
                                            m.next(), m.stream));
                  return status;
                })
                .ok());
        ASSERT_TRUE(m.stream.Synchronize().ok());
        EXPECT_TRUE(back == token);
        return;
      }
      Values passed(DType::kF32, count);
      ASSERT_TRUE(
          m.comm.Recv(passed.data(), count, DType::kF32, m.previous(), m.stream)
              .ok());
      ASSERT_TRUE(
          m.comm.Send(passed.data(), count, DType::kF32, m.next(), m.stream)
              .ok());
      ASSERT_TRUE(m.stream.Synchronize().ok());
    });
  }
}

TEST_P(CommunicatorConformance, AGroupHoldsCollectivesAndSendsInAnyMixture) {
  const Draw draw = promises().rank_order ? Draw::kWild : Draw::kExact;
  for (size_t count : kCounts) {
    const Values sum =
        Reduced(DType::kF64, count, draw, 3, size(), ReduceOp::kSum);
    const Values most =
        Reduced(DType::kI32, count, Draw::kWild, 4, size(), ReduceOp::kMax);
    Together([&](Member& m) {
      Values a = Input(DType::kF64, count, draw, 3, m.rank);
      Values b = Input(DType::kI32, count, Draw::kWild, 4, m.rank);
      const Values given = Input(DType::kU8, count, Draw::kWild, 5, m.rank);
      Values got(DType::kU8, count);
      const bool alone = m.size == 1;
      const auto send = [&] {
        return alone ? absl::OkStatus()
                     : m.comm.Send(given.data(), count, DType::kU8, m.next(),
                                   m.stream);
      };
      const auto receive = [&] {
        return alone ? absl::OkStatus()
                     : m.comm.Recv(got.data(), count, DType::kU8, m.previous(),
                                   m.stream);
      };
      ASSERT_TRUE(m.comm
                      .Group([&] {
                        // Even ranks send before the collectives, odd ones
                        // after.
                        absl::Status status =
                            m.rank % 2 == 0 ? send() : receive();
                        status.Update(m.comm.AllReduce(
                            a.data(), a.data(), count, DType::kF64,
                            ReduceOp::kSum, m.stream));
                        // A nested group is part of the outer one.
                        status.Update(m.comm.Group([&] {
                          return m.comm.AllReduce(b.data(), b.data(), count,
                                                  DType::kI32, ReduceOp::kMax,
                                                  m.stream);
                        }));
                        status.Update(m.rank % 2 == 0 ? receive() : send());
                        return status;
                      })
                      .ok());
      ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
      EXPECT_TRUE(a == sum);
      EXPECT_TRUE(b == most);
      if (!alone) {
        EXPECT_TRUE(got ==
                    Input(DType::kU8, count, Draw::kWild, 5, m.previous()));
      }
    });
  }
}

TEST_P(CommunicatorConformance, AGroupWhoseBodyFailsEnqueuesNothing) {
  Together([&](Member& m) {
    float value = 1;
    const absl::Status failed = m.comm.Group([&]() -> absl::Status {
      EXPECT_TRUE(m.comm
                      .AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum,
                                 m.stream)
                      .ok());
      return absl::OutOfRangeError("changed my mind");
    });
    EXPECT_EQ(failed, absl::OutOfRangeError("changed my mind"));
    ASSERT_TRUE(m.stream.Synchronize().ok());
    EXPECT_EQ(value, 1);
    EXPECT_TRUE(m.comm.Group([] { return absl::OkStatus(); }).ok()) << "empty";
    // The calls left nothing behind on any rank, so the next operation works.
    ASSERT_TRUE(
        m.comm
            .AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, m.stream)
            .ok());
    ASSERT_TRUE(m.stream.Synchronize().ok());
    EXPECT_EQ(value, m.size);
  });
}

TEST_P(CommunicatorConformance, AGroupHasOneStream) {
  Together([&](Member& m) {
    const std::unique_ptr<Stream> other = m.MakeStream();
    const absl::Status grouped = m.comm.Group([&] {
      absl::Status status = m.comm.Barrier(m.stream);
      status.Update(m.comm.Barrier(*other));
      return status;
    });
    EXPECT_EQ(grouped.code(), absl::StatusCode::kInvalidArgument) << grouped;
  });
}

TEST_P(CommunicatorConformance, TakesManyOperationsBeforeTheFirstIsDone) {
  constexpr int kMany = 100;
  Together([&](Member& m) {
    std::vector<float> values(kMany);
    for (int i = 0; i < kMany; ++i) {
      values[i] = static_cast<float>(i);
      ASSERT_TRUE(m.comm
                      .AllReduce(&values[i], &values[i], 1, DType::kF32,
                                 ReduceOp::kSum, m.stream)
                      .ok());
    }
    ASSERT_TRUE(m.stream.Synchronize().ok());
    for (int i = 0; i < kMany; ++i) EXPECT_EQ(values[i], i * m.size);
  });
}

TEST_P(CommunicatorConformance, TwoCommunicatorsRunOnTwoStreams) {
  const auto second = conformance::Connect(world(), size(), "second");
  ASSERT_EQ(second.size(), static_cast<size_t>(size()));
  constexpr size_t kCount = 70'001;
  const Draw draw = promises().rank_order ? Draw::kWild : Draw::kExact;
  const Values expected =
      Reduced(DType::kF32, kCount, draw, 6, size(), ReduceOp::kSum);
  Together([&](Member& m) {
    const std::unique_ptr<Stream> other = m.MakeStream();
    Values a = Input(DType::kF32, kCount, draw, 6, m.rank);
    Values b = a;
    // Ranks interleave them differently; each stream keeps its order.
    const int turn = promises().any_order_between_groups ? m.rank : 0;
    for (int i = 0; i < 2; ++i) {
      const bool first = (turn + i) % 2 == 0;
      Values& values = first ? a : b;
      ASSERT_TRUE((first ? m.comm : *second[m.rank])
                      .AllReduce(values.data(), values.data(), kCount,
                                 DType::kF32, ReduceOp::kSum,
                                 first ? m.stream : *other)
                      .ok());
    }
    // One stream waits for an event of the other.
    m.stream.WaitFor(other->Record());
    const Event both = m.stream.Record();
    ASSERT_TRUE(both.Wait().ok());
    EXPECT_TRUE(a == expected);
    EXPECT_TRUE(b == expected);
    EXPECT_TRUE(other->Synchronize().ok());
  });
}

TEST_P(CommunicatorConformance, OneCommunicatorRunsOnTwoStreams) {
  Together([&](Member& m) {
    const std::unique_ptr<Stream> other = m.MakeStream();
    std::vector<int64_t> values(40, m.rank);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(m.comm
                      .AllReduce(&values[i], &values[i], 1, DType::kI64,
                                 ReduceOp::kSum, i % 3 == 0 ? *other : m.stream)
                      .ok());
    }
    ASSERT_TRUE(m.stream.Synchronize().ok());
    ASSERT_TRUE(other->Synchronize().ok());
    for (int64_t value : values) EXPECT_EQ(value, m.size * (m.size - 1) / 2);
  });
}

}  // namespace
}  // namespace lockstep

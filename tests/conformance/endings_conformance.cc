// Conformance: aborts, lost peers, communicators destroyed during operations.

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/failed_peer.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Member;
using conformance::Values;

constexpr size_t kEndingCounts[] = {3, kUnderSanitizer ? 300'000 : 600'000};
constexpr int kRounds = kUnderSanitizer ? 3 : 10;

absl::Status Sum(Member& m, Values& values) {
  return m.comm.AllReduce(values.data(), values.data(), values.count(),
                          DType::kF32, ReduceOp::kSum, m.stream);
}

bool Says(const absl::Status& status, const std::string& cause) {
  return std::string(status.message()).find(cause) != std::string::npos;
}

TEST_P(CommunicatorConformance, AbortEndsWhatWaitsAndWhatIsQueued) {
  if (size() == 1) return;  // nothing waits
  for (size_t count : kEndingCounts) {
    Reconnect();
    Together([&](Member& m) {
      if (m.rank != 0) return;  // the others never arrive
      Values values(DType::kF32, count);
      const std::unique_ptr<Stream> other = m.MakeStream();
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(Sum(m, values).ok());
        ASSERT_TRUE(
            m.comm.Recv(nullptr, 0, DType::kU8, m.size - 1, *other).ok());
      }
      const Event queued = m.stream.Record();
      EXPECT_FALSE(queued.Done());
      m.comm.Abort("the test says so");
      EXPECT_TRUE(queued.Wait().ok());
      for (Stream* stream : {&m.stream, other.get()}) {
        const absl::Status ended = stream->Synchronize();
        EXPECT_EQ(ended, m.comm.status());
        EXPECT_TRUE(absl::IsAborted(ended)) << ended;
        EXPECT_TRUE(Says(ended, "the test says so")) << ended;
        EXPECT_FALSE(transport::FailedPeer(ended).has_value());
      }
    });
  }
}

TEST_P(CommunicatorConformance, TheFirstCauseStaysAndLaterOperationsReturn) {
  Together([&](Member& m) {
    m.comm.Abort("first cause");
    m.comm.Abort("second cause");
    float value = 5;
    EXPECT_TRUE(
        m.comm
            .AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, m.stream)
            .ok());
    EXPECT_TRUE(m.comm.Barrier(m.stream).ok());
    bool ran = false;
    m.Enqueue([&] { ran = true; });
    const absl::Status ended = m.stream.Synchronize();
    EXPECT_TRUE(absl::IsAborted(ended)) << ended;
    EXPECT_TRUE(Says(m.comm.status(), "first cause")) << m.comm.status();
    EXPECT_TRUE(ran) << "the stream goes on";
  });
}

TEST_P(CommunicatorConformance, AbortByOneEndsAllAtAnyMoment) {
  if (size() == 1) return;  // no other rank
  std::mt19937 random(20221101);
  for (int round = 0; round < kRounds; ++round) {
    Reconnect();
    const int who = static_cast<int>(random() % size());
    // Aborted by another thread, after some of its operations have begun.
    const int after = static_cast<int>(random() % 12);
    std::atomic<int> begun{0};
    std::atomic<bool> aborted{false};
    Together([&](Member& m) {
      Values values(DType::kF32, kEndingCounts[1]);
      std::thread aborter;
      if (m.rank == who) {
        aborter = std::thread([&] {
          while (begun < after) std::this_thread::yield();
          m.comm.Abort("at any moment");
          aborted = true;
        });
      } else if (!promises().notices_who_goes) {
        // Aborted by another thread, as a session does.
        aborter = std::thread([&] {
          while (!aborted) std::this_thread::yield();
          m.comm.Abort("another rank aborted");
        });
      }
      while (m.comm.status().ok()) {
        if (m.rank == who) ++begun;
        ASSERT_TRUE(Sum(m, values).ok());
        (void)m.stream.Synchronize();
      }
      const absl::Status ended = m.comm.status();
      const bool told = m.rank == who || !promises().notices_who_goes;
      EXPECT_TRUE(told ? absl::IsAborted(ended) : absl::IsUnavailable(ended))
          << "rank " << m.rank << ": " << ended;
      if (aborter.joinable()) aborter.join();
    });
  }
}

TEST_P(CommunicatorConformance, APeerThatGoesIsNamed) {
  if (size() == 1) return;  // no peer
  if (!promises().notices_who_goes) return;
  for (size_t count : kEndingCounts) {
    Reconnect();
    std::atomic<int> blamed{0};
    Together([&](Member& m) {
      Values values(DType::kF32, count);
      const int goner = m.size - 1;
      ASSERT_TRUE(Sum(m, values).ok());
      ASSERT_TRUE(m.stream.Synchronize().ok());
      if (m.rank == goner) return Drop(m.rank);
      ASSERT_TRUE(Sum(m, values).ok());
      const absl::Status ended = m.stream.Synchronize();
      EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
      EXPECT_TRUE(transport::FailedPeer(ended).has_value()) << ended;
      blamed += transport::FailedPeer(ended) == goner;
    });
    // The others may have noticed each other's end first.
    EXPECT_GE(blamed, 1);
  }
}

TEST_P(CommunicatorConformance, DestructionEndsWhatIsUnderWay) {
  for (size_t count : kEndingCounts) {
    Reconnect();
    Together([&](Member& m) {
      if (m.rank == 0 && m.size > 1) return;  // never arrives
      Values values(DType::kF32, count);
      Stream& stream = m.stream;
      // On a device each may end with what an aborted peer has sent, without an
      // error; not all of so many do.
      for (int i = 0; i < 12; ++i) ASSERT_TRUE(Sum(m, values).ok());
      ASSERT_TRUE(m.comm.Barrier(stream).ok());
      Drop(m.rank);
      const absl::Status ended = stream.Synchronize();
      if (m.size > 1) {
        EXPECT_FALSE(ended.ok());
      }
    });
  }
}

// Destroying a communicator after its work keeps the data that it sent.
TEST_P(CommunicatorConformance, WhoIsDoneMayGo) {
  for (int round = 0; round < kRounds; ++round) {
    Reconnect();
    Together([&](Member& m) {
      Values values(DType::kF32, kEndingCounts[1]);
      values.Set(7, 1.0f);
      ASSERT_TRUE(Sum(m, values).ok());
      EXPECT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
      EXPECT_EQ(values.Get<float>(7), static_cast<float>(m.size));
      Drop(m.rank);
    });
  }
}

}  // namespace
}  // namespace lockstep

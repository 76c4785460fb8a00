// Conformance: invalid arguments.

#include <functional>
#include <limits>
#include <vector>

#include "tests/conformance/communicator_conformance.h"

namespace lockstep {
namespace {

using conformance::Member;

class NoStreamOfTheirs final : public Stream {
 public:
  Event Record() override { return Event(); }
  void WaitFor(const Event&) override {}
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

struct BadCall {
  const char* what;
  std::function<absl::Status(Member&)> call;
};

std::vector<BadCall> BadCalls() {
  static double buffer[64];
  char* const odd = reinterpret_cast<char*>(buffer) + 1;
  const auto f32 = DType::kF32;
  const auto sum = ReduceOp::kSum;
  return {
      {"a stream of another kind",
       [=](Member& m) {
         NoStreamOfTheirs stream;
         return m.comm.AllReduce(buffer, buffer, 1, f32, sum, stream);
       }},
      {"no dtype",
       [=](Member& m) {
         return m.comm.AllGather(buffer, buffer + 32, 1, DType{77}, m.stream);
       }},
      {"no reduction",
       [=](Member& m) {
         return m.comm.AllReduce(buffer, buffer, 1, f32, ReduceOp{0}, m.stream);
       }},
      {"the mean of integers",
       [=](Member& m) {
         return m.comm.ReduceScatter(buffer, buffer + 32, 1, DType::kI32,
                                     ReduceOp::kMean, m.stream);
       }},
      {"null in",
       [=](Member& m) {
         return m.comm.AllReduce(nullptr, buffer, 1, f32, sum, m.stream);
       }},
      {"null out",
       [=](Member& m) {
         return m.comm.AllReduce(buffer, nullptr, 1, f32, sum, m.stream);
       }},
      {"an odd address",
       [=](Member& m) {
         return m.comm.AllReduce(odd, odd, 1, f32, sum, m.stream);
       }},
      {"more than memory",
       [=](Member& m) {
         return m.comm.AllReduce(buffer, buffer,
                                 std::numeric_limits<size_t>::max() / 2, f32,
                                 sum, m.stream);
       }},
      {"an overlap",
       [=](Member& m) {
         return m.comm.AllReduce(buffer, buffer + 1, 8, f32, sum, m.stream);
       }},
      {"an all-to-all in place",
       [=](Member& m) {
         return m.comm.AllToAll(buffer, buffer, 1, f32, m.stream);
       }},
      {"an all-gather in place at another rank's block",
       [=](Member& m) {
         float* out = reinterpret_cast<float*>(buffer);
         return m.comm.AllGather(
             out + (m.rank + 1) % m.size * 2 + (m.size == 1 ? 1 : 0), out, 2,
             f32, m.stream);
       }},
      {"a root that is not there",
       [=](Member& m) {
         return m.comm.Broadcast(buffer, 1, f32, m.size, m.stream);
       }},
      {"a negative root",
       [=](Member& m) {
         return m.comm.Broadcast(buffer, 1, f32, -1, m.stream);
       }},
      {"a peer that is not there",
       [=](Member& m) {
         return m.comm.Send(buffer, 1, f32, m.size, m.stream);
       }},
      {"itself",
       [=](Member& m) {
         return m.comm.Recv(buffer, 1, f32, m.rank, m.stream);
       }},
      {"counts of another group",
       [=](Member& m) {
         const std::vector<size_t> counts(m.size + 1), offsets(m.size);
         return m.comm.AllToAllV(buffer, counts, offsets, buffer + 32, offsets,
                                 offsets, f32, m.stream);
       }},
      {"an offset beyond memory",
       [=](Member& m) {
         const std::vector<size_t> counts(m.size, 1), none(m.size);
         const std::vector<size_t> offsets(m.size,
                                           std::numeric_limits<size_t>::max());
         return m.comm.AllToAllV(buffer, counts, offsets, buffer + 32, none,
                                 none, f32, m.stream);
       }},
  };
}

TEST_P(CommunicatorConformance, RefusesWhatCannotBeExecuted) {
  Together([&](Member& m) {
    for (const BadCall& bad : BadCalls()) {
      const absl::Status refused = bad.call(m);
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument)
          << bad.what << ": " << refused;
    }
    // Nothing was enqueued, and the communicator still works.
    int64_t one = 1;
    ASSERT_TRUE(
        m.comm.AllReduce(&one, &one, 1, DType::kI64, ReduceOp::kSum, m.stream)
            .ok());
    EXPECT_TRUE(m.stream.Synchronize().ok());
    EXPECT_EQ(one, m.size);
    EXPECT_TRUE(m.comm.status().ok());
  });
}

TEST_P(CommunicatorConformance, KnowsItsPlace) {
  Together([&](Member& m) {
    EXPECT_EQ(m.comm.rank(), m.rank);
    EXPECT_EQ(m.comm.size(), m.size);
    EXPECT_FALSE(m.comm.transport().empty());
    EXPECT_TRUE(m.comm.status().ok());
  });
}

}  // namespace
}  // namespace lockstep

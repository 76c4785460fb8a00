// Conformance: ranks that call different operations get an error; they do not
// get each other's bytes, and do not hang.

#include <functional>
#include <vector>

#include "base/mutex.h"
#include "client/transport/extended_collectives.h"
#include "client/transport/failed_peer.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"

namespace lockstep {
namespace {

using conformance::Member;
using conformance::Values;

constexpr size_t kLarge = 400'000;

// One rank's call; the last rank makes a different one.
struct Disagreement {
  const char* about;
  std::function<absl::Status(Member& m, bool last, void* in, void* out)> call;
};

absl::Status SumOf(Member& m, size_t count, DType dtype, void* in, void* out) {
  return m.comm.AllReduce(in, out, count, dtype, ReduceOp::kSum, m.stream);
}

std::vector<Disagreement> Disagreements() {
  return {
      {"a small count",
       [](Member& m, bool last, void* in, void* out) {
         return SumOf(m, last ? 17 : 16, DType::kF32, in, out);
       }},
      {"a large count",
       [](Member& m, bool last, void* in, void* out) {
         return SumOf(m, last ? kLarge : kLarge - 1, DType::kF32, in, out);
       }},
      {"small or large",
       [](Member& m, bool last, void* in, void* out) {
         return SumOf(m, last ? kLarge : 4, DType::kF32, in, out);
       }},
      {"twice the bytes",
       [](Member& m, bool last, void* in, void* out) {
         return SumOf(m, last ? kLarge : kLarge / 2, DType::kF32, in, out);
       }},
      {"the type, at the same bytes",
       [](Member& m, bool last, void* in, void* out) {
         return SumOf(m, 16, last ? DType::kI32 : DType::kF32, in, out);
       }},
      {"the reduction",
       [](Member& m, bool last, void* in, void* out) {
         return m.comm.AllReduce(in, out, kLarge, DType::kF32,
                                 last ? ReduceOp::kMax : ReduceOp::kMin,
                                 m.stream);
       }},
      {"the order of a sum",
       [](Member& m, bool last, void* in, void* out) {
         return last && transport::SumsInPairs(m.comm)
                    ? transport::AllReducePairs(m.comm, in, out, kLarge,
                                                DType::kF32, 1, m.stream)
                    : m.comm.AllReduce(in, out, kLarge, DType::kF32,
                                       last ? ReduceOp::kMax : ReduceOp::kSum,
                                       m.stream);
       }},
      {"the operation",
       [](Member& m, bool last, void* in, void* out) {
         return last ? m.comm.AllGather(in, out, 16, DType::kF32, m.stream)
                     : SumOf(m, 16, DType::kF32, in, out);
       }},
      {"an uneven block",
       [](Member& m, bool last, void* in, void* out) {
         std::vector<size_t> sent(m.size, 5), expected(m.size, 5), at(m.size);
         for (int r = 0; r < m.size; ++r) at[r] = 10 * r;
         if (last) sent[0] = 6;
         return m.comm.AllToAllV(in, sent, at, out, expected, at, DType::kI64,
                                 m.stream);
       }},
      {"a message",
       [](Member& m, bool last, void* in, void* out) {
         if (m.rank == 0) {
           return m.comm.Send(in, 3, DType::kF64, m.size - 1, m.stream);
         }
         return last ? m.comm.Recv(out, 4, DType::kF64, 0, m.stream)
                     : absl::OkStatus();
       }},
      {"a large message",
       [](Member& m, bool last, void* in, void* out) {
         if (m.rank == 0) {
           return m.comm.Send(in, kLarge, DType::kF32, m.size - 1, m.stream);
         }
         return last ? m.comm.Recv(out, kLarge / 2, DType::kF32, 0, m.stream)
                     : absl::OkStatus();
       }},
  };
}

// The errors of all ranks: one on each, DataLoss on at least one.
class Verdict {
 public:
  explicit Verdict(const char* about) : about_(about) {}
  ~Verdict() { EXPECT_GE(lost_, 1) << about_; }

  void Saw(int rank, const absl::Status& status) {
    MutexLock lock(&mutex_);
    lost_ += absl::IsDataLoss(status);
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnavailable(status))
        << about_ << ": rank " << rank << " saw " << status;
    EXPECT_TRUE(transport::FailedPeer(status).has_value()) << status;
  }

 private:
  const char* const about_;
  Mutex mutex_;
  int lost_ = 0;
};

TEST_P(CommunicatorConformance, NoticesThatRanksDisagree) {
  if (size() == 1) return;  // a single rank cannot disagree
  if (!promises().notices_disagreement) return;
  for (const Disagreement& disagreement : Disagreements()) {
    Reconnect();
    Verdict verdict(disagreement.about);
    Together([&](Member& m) {
      Values in(DType::kF32, kLarge);
      Values out(DType::kF32, kLarge);
      const bool last = m.rank == m.size - 1;
      EXPECT_TRUE(disagreement.call(m, last, in.data(), out.data()).ok());
      (void)m.stream.Synchronize();
      // A rank that was not involved, or had finished before the others
      // noticed, gets the error from its next operation.
      if (m.comm.status().ok()) {
        EXPECT_TRUE(m.comm.Barrier(m.stream).ok());
      }
      (void)m.stream.Synchronize();
      verdict.Saw(m.rank, m.comm.status());
    });
  }
}

}  // namespace
}  // namespace lockstep

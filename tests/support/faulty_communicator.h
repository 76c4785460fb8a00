// Faults of the data plane, by seed: a Communicator around another, whose
// operations come late, and which fails when it is told to.
//
//   FaultyCommunicator comm(std::move(inner), {.seed = 7, .late = 0.3});
//   comm.AllReduce(...)   sometimes waits on the stream before it begins
//
// The same seed gives the same faults for the same calls.
//
// Threads: as Communicator. Delays pass on the stream's thread.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"

namespace lockstep {

struct Faults {
  static constexpr int kNever = std::numeric_limits<int>::max();

  uint64_t seed = 0;
  double late = 0;  // the share of operations that come late
  absl::Duration late_max = absl::Microseconds(300);
  // The first call is number 0.
  int refuse_at = kNever;  // this call returns Internal, nothing is enqueued
  int abort_at = kNever;   // before this call the communicator is aborted
};

class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const Faults& faults)
      : inner_(std::move(inner)), faults_(faults), random_(faults.seed) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view transport() const override { return inner_->transport(); }

  absl::Status AllReduce(const void* in, void* out, size_t count, DType dtype,
                         ReduceOp op, Stream& stream) override;
  absl::Status AllReducePairs(const void* in, void* out, size_t count,
                              DType dtype, double factor,
                              Stream& stream) override;
  bool SumsInPairs() const override { return inner_->SumsInPairs(); }
  absl::Status ReduceScatter(const void* in, void* out, size_t count,
                             DType dtype, ReduceOp op, Stream& stream) override;
  absl::Status AllGather(const void* in, void* out, size_t count, DType dtype,
                         Stream& stream) override;
  absl::Status Broadcast(void* buffer, size_t count, DType dtype, int root,
                         Stream& stream) override;
  absl::Status AllToAll(const void* in, void* out, size_t count, DType dtype,
                        Stream& stream) override;
  absl::Status AllToAllV(const void* in, absl::Span<const size_t> in_counts,
                         absl::Span<const size_t> in_offsets, void* out,
                         absl::Span<const size_t> out_counts,
                         absl::Span<const size_t> out_offsets, DType dtype,
                         Stream& stream) override;
  absl::Status Send(const void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override;
  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override;
  absl::Status Barrier(Stream& stream) override;

  absl::Status Group(absl::FunctionRef<absl::Status()> body) override {
    return inner_->Group(body);
  }
  void Abort(std::string_view cause) override { inner_->Abort(cause); }
  absl::Status status() const override { return inner_->status(); }

 private:
  // The faults of the next call; not OK if it is refused.
  absl::Status Before(Stream& stream);

  const std::unique_ptr<Communicator> inner_;
  const Faults faults_;
  std::mt19937_64 random_;
  int calls_ = 0;
};

// A transport whose communicators have these faults; each rank of each group
// draws its own from the seed.
std::unique_ptr<transport::Transport> MakeFaultyTransport(
    std::unique_ptr<transport::Transport> inner, const Faults& faults);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_

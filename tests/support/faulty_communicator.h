// Seeded faults of the data plane: a decorator that delays operations and fails
// on request.
//
//   FaultyCommunicator comm(std::move(inner), {.seed = 7, .late = 0.3});
//   comm.AllReduce(...)   sometimes waits on the stream before it begins
//
// The same seed gives the same faults for the same calls.
//
// Threads: as Communicator. The stream's thread waits out the delays.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "tests/support/forwarding_communicator.h"

namespace lockstep {

struct Faults {
  static constexpr int kNever = std::numeric_limits<int>::max();

  uint64_t seed = 0;
  double late = 0;  // the share of operations that are delayed
  absl::Duration late_max = absl::Microseconds(300);
  // The first call is number 0.
  int refuse_at = kNever;  // this call returns Internal, nothing is enqueued
  int abort_at = kNever;   // before this call the communicator is aborted
};

class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const Faults& faults)
      : ForwardingCommunicator(std::move(inner)),
        faults_(faults),
        random_(faults.seed) {}

 private:
  // Injects the faults of the call; returns an error to refuse it.
  absl::Status Before(const transport::CollectiveOp&, Stream& stream) override;

  const Faults faults_;
  std::mt19937_64 random_;
  int calls_ = 0;
};

// A transport of communicators with these faults. Each rank of each group draws
// its own faults from the seed.
std::unique_ptr<transport::Transport> MakeFaultyTransport(
    std::unique_ptr<transport::Transport> inner, const Faults& faults);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAULTY_COMMUNICATOR_H_

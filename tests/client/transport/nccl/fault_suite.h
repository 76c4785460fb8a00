// Runs the adapter over the fake through every rule that it must keep, and
// returns the findings as text.
//
// Two ranks, a verdict's communicator and a gradient's. It runs in a process of
// its own, because an adapter that breaks a rule may wait for ever.
//
//   EXPECT_THAT(RunFaultSuite({.seed = 3}), IsEmpty());

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep::fake {

struct FaultSuiteOptions {
  uint64_t seed = 1;
  FakeGpuWorld::Decorate decorate = {};
  // The timeout of each wait.
  absl::Duration patience = absl::Seconds(20);
  // Ends the suite once this is true of the findings; null: it runs to its end.
  std::function<bool(const std::string& said)> enough = {};
};

// Runs the suite; returns a line for each finding, empty without findings.
std::string RunFaultSuite(const FaultSuiteOptions& options);

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_

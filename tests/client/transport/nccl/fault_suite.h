// One exercise of the adapter over the fake that shows every rule it must keep:
// what goes wrong in it comes back as sentences.
//
// Two ranks, a verdict's communicator and a gradient's. It runs in a process of
// its own, because an adapter that breaks a rule may wait for ever.
//
//   EXPECT_THAT(Drill({.seed = 3}), IsEmpty());

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_

#include <string>

#include "absl/time/time.h"
#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep::fake {

struct DrillOptions {
  uint64_t seed = 1;
  FakeGpuWorld::Decorate decorate = {};
  // After which something that has not happened is late.
  absl::Duration patience = absl::Seconds(30);
};

// What went wrong, a line each; empty if nothing did.
std::string Drill(const DrillOptions& options);

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULT_SUITE_H_

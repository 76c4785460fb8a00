// Faults of an adapter, injected by wrapping the tables: the adapter itself has
// no test switches.

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_

#include <string>
#include <vector>

#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep::fake {

struct Fault {
  std::string name;
  // A part of the suite's finding.
  std::string noticed;
  FakeGpuWorld::Decorate decorate;
};

std::vector<Fault> AllFaults();
std::vector<Fault> GraphFaults();
std::vector<Fault> WindowFaults();

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_

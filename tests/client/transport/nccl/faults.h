// Faults of an adapter, injected by wrapping the tables: the adapter itself has
// no test switches.

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/client/transport/nccl/fake_world.h"

namespace lockstep::fake {

struct Fault {
  std::string name;
  // A regular expression that fits a part of the suite's finding.
  std::string noticed;
  FakeGpuWorld::Decorate decorate;
};

// Wraps a rank's table of CUDA, or of NCCL, in a T: T(table), or T(table,
// rank).
template <typename T>
FakeGpuWorld::Decorate DecorateCuda() {
  return [](int, transport::nccl::Tables* tables) {
    tables->cuda = std::make_shared<T>(tables->cuda);
  };
}
template <typename T>
FakeGpuWorld::Decorate DecorateNccl() {
  return [](int rank, transport::nccl::Tables* tables) {
    if constexpr (std::is_constructible_v<T, decltype(tables->nccl), int>) {
      tables->nccl = std::make_shared<T>(tables->nccl, rank);
    } else {
      tables->nccl = std::make_shared<T>(tables->nccl);
    }
  };
}

std::vector<Fault> AllFaults();
std::vector<Fault> GraphFaults();
std::vector<Fault> WindowFaults();
std::vector<Fault> EndFaults();

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAULTS_H_

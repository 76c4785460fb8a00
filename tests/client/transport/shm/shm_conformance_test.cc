// The shared-memory transport, held to the suite of the interface: with private
// buffers, and with buffers in the arena.

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/support/arena_communicator.h"
#include "tests/support/slow.h"

namespace lockstep {
namespace {

using transport::MakeShmTransport;
using transport::Transport;
using MakeTransport = std::function<std::unique_ptr<Transport>()>;

// Each rank has a transport of its own, as a process does.
class ShmWorld final : public conformance::World {
 public:
  explicit ShmWorld(MakeTransport make) : make_(std::move(make)) {}

  Transport& at(int rank) override {
    auto& transport = transports_[rank];
    if (transport == nullptr) transport = make_();
    return *transport;
  }

 private:
  const MakeTransport make_;
  std::map<int, std::unique_ptr<Transport>> transports_;
};

// Ranks that outnumber the cores wait for each other's turns, all the more
// under a sanitizer: there one size that is no power of two is enough.
std::vector<conformance::Case> CasesOver(const MakeTransport& make,
                                         const std::set<int>& sizes) {
  std::vector<conformance::Case> cases =
      conformance::Cases([make] { return std::make_unique<ShmWorld>(make); });
  std::erase_if(cases, [&](const conformance::Case& one) {
    return sizes.count(one.size) == 0 || (kIsSlow && one.size != 3);
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(ShmPrivate, CommunicatorConformance,
                         testing::ValuesIn(CasesOver(MakeShmTransport,
                                                     {1, 2, 3, 4, 8})),
                         conformance::CaseName);

INSTANTIATE_TEST_SUITE_P(
    ShmArena, CommunicatorConformance,
    testing::ValuesIn(CasesOver(
        [] { return MakeArenaTransport(MakeShmTransport()); }, {2, 3, 8})),
    conformance::CaseName);

}  // namespace
}  // namespace lockstep

// Runs the conformance suite on the Gloo transport; and tests of its own
// features.

#include "client/transport/gloo/gloo.h"

#include <map>
#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"

namespace lockstep {
namespace {

class GlooWorld final : public conformance::World {
 public:
  transport::Transport& at(int rank) override {
    auto& transport = transports_[rank];
    if (transport == nullptr) {
      auto made = transport::MakeGlooTransport({});
      EXPECT_TRUE(made.ok()) << made.status();
      transport = *std::move(made);
    }
    return *transport;
  }

 private:
  std::map<int, std::unique_ptr<transport::Transport>> transports_;
};

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorConformance,
                         testing::ValuesIn(conformance::Cases([] {
                           return std::make_unique<GlooWorld>();
                         })),
                         conformance::CaseName);

}  // namespace
}  // namespace lockstep

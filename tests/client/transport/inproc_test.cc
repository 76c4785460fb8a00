// The in-process transport, held to the suite of the interface.

#include "client/transport/inproc/inproc.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"

namespace lockstep {
namespace {

class InprocWorld final : public conformance::World {
 public:
  transport::Transport& at(int) override { return *transport_; }

 private:
  transport::InprocHub hub_;
  std::unique_ptr<transport::Transport> transport_ =
      transport::MakeInprocTransport(&hub_);
};

INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorConformance,
                         testing::ValuesIn(conformance::Cases([] {
                           return std::make_unique<InprocWorld>();
                         })),
                         conformance::CaseName);

}  // namespace
}  // namespace lockstep

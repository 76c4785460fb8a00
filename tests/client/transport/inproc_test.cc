// Runs the conformance suite on the in-process transport, also with delayed
// operations.

#include "tests/support/inproc/inproc.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/failed_peer.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/support/faulty_communicator.h"

namespace lockstep {
namespace {

using transport::InprocHub;
using transport::MakeInprocTransport;
using transport::PendingGroup;

class InprocWorld : public conformance::World {
 public:
  explicit InprocWorld(const Faults& faults = {})
      : transport_(MakeFaultyTransport(MakeInprocTransport(&hub_), faults)) {}

  transport::Transport& at(int) override { return *transport_; }

 private:
  InprocHub hub_;
  const std::unique_ptr<transport::Transport> transport_;
};

INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorConformance,
                         testing::ValuesIn(conformance::Cases([] {
                           return std::make_unique<InprocWorld>();
                         })),
                         conformance::CaseName);

std::vector<conformance::Case> LateCases() {
  std::vector<conformance::Case> cases;
  for (int size : {2, 3}) {
    cases.push_back({[] {
                       return std::make_unique<InprocWorld>(
                           Faults{.seed = 5, .late = 0.3});
                     },
                     size});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Late, CommunicatorConformance,
                         testing::ValuesIn(LateCases()), conformance::CaseName);

TEST(FaultyCommunicatorTest, RefusesAndAbortsWhenTold) {
  InprocHub hub;
  const auto transport = MakeFaultyTransport(MakeInprocTransport(&hub),
                                             {.refuse_at = 1, .abort_at = 3});
  const auto pending = *transport->Prepare({.name = "alone"});
  const auto comm = *pending->Connect({pending->handle()}, absl::Seconds(60));
  HostStream stream;
  EXPECT_TRUE(comm->Barrier(stream).ok());
  EXPECT_EQ(comm->Barrier(stream).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(comm->Barrier(stream).ok());
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_TRUE(comm->Barrier(stream).ok());
  EXPECT_TRUE(absl::IsAborted(stream.Synchronize()));
}

// --- How in-process groups form ----------------------------------------------

class InprocConnectTest : public testing::Test {
 protected:
  std::unique_ptr<PendingGroup> Prepared(int rank, int size) {
    return *transport_->Prepare({.name = "g", .rank = rank, .size = size});
  }

  InprocHub hub_;
  const std::unique_ptr<transport::Transport> transport_ =
      MakeInprocTransport(&hub_);
};

TEST_F(InprocConnectTest, RefusesGroupsThatCannotBe) {
  for (auto [rank, size] : {std::pair(-1, 2), {2, 2}, {0, 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        transport_->Prepare({.name = "g", .rank = rank, .size = size})
            .status()));
  }
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  for (const std::vector<std::string>& handles :
       {std::vector<std::string>{first->handle()},
        {second->handle(), first->handle()},
        {first->handle(), "nonsense"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        first->Connect(handles, absl::Seconds(60)).status()));
  }
}

TEST_F(InprocConnectTest, NamesWhoDoesNotCome) {
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  const absl::Status late =
      first->Connect({first->handle(), second->handle()}, absl::Milliseconds(1))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_EQ(transport::FailedPeer(late), 1);
}

TEST_F(InprocConnectTest, AbortEndsConnecting) {
  const auto first = Prepared(0, 2);
  const auto second = Prepared(1, 2);
  const std::vector<std::string> handles = {first->handle(), second->handle()};
  std::thread aborter([&] {
    first->Abort("enough");
    first->Abort("more than enough");
  });
  EXPECT_EQ(first->Connect(handles, absl::InfiniteDuration()).status(),
            absl::AbortedError("enough"));
  aborter.join();
}

}  // namespace
}  // namespace lockstep

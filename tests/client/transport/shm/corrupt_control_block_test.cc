// How a rank handles a control block that was overwritten after the rendezvous.
// The tasks of both ranks are advanced in turn, by hand.

#include <memory>
#include <ostream>
#include <vector>

#include "client/transport/failed_peer.h"
#include "client/transport/shm/task.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/shm_groups.h"

namespace lockstep::transport {
namespace {

// A wrong copy mode for `bytes`: that of fewer or of more bytes, or an unknown
// one.
struct Wrong {
  const char* name;
  size_t bytes;
  CopyMode copy_mode;

  friend void PrintTo(const Wrong& wrong, std::ostream* os) {
    *os << wrong.name;
  }
};

class CorruptControlBlockTest : public testing::TestWithParam<Wrong> {
 protected:
  CorruptControlBlockTest()
      : in_(2 * GetParam().bytes), out_(2 * GetParam().bytes) {}

  CollectiveOp MakeCall(CollectiveKind kind, bool point_to_point) {
    const bool scatters = kind == CollectiveKind::kReduceScatter;
    return {.kind = kind,
            .in = in_.data(),
            .out = out_.data(),
            .count = GetParam().bytes / (scatters ? 2 : 1),
            .dtype = DType::kU8,
            .tag = FirstTag(point_to_point, 1)};
  }

  static void ExpectBlamed(const absl::Status& status) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(FailedPeer(status), 0) << status;
  }

  std::vector<std::byte> in_, out_;
};

TEST_P(CorruptControlBlockTest, ASlotOfACollectiveIsBlamedOnItsRank) {
  for (CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
    SCOPED_TRACE(Name(kind));
    ShmGroups shm_groups(2);
    const CollectiveOp call = MakeCall(kind, /*point_to_point=*/false);
    const auto theirs = MakeTask(call, shm_groups.at(0));
    ASSERT_TRUE(theirs->Advance().ok());
    shm_groups.at(0).mine().slot(1).published.copy_mode = GetParam().copy_mode;
    ExpectBlamed(MakeTask(call, shm_groups.at(1))->Advance().status());
  }
}

TEST_P(CorruptControlBlockTest, ASlotOfAMessageIsBlamedOnItsRank) {
  ShmGroups shm_groups(2);
  CollectiveOp send = MakeCall(CollectiveKind::kSend, /*point_to_point=*/true);
  send.peer = 1;
  const auto theirs = MakeTask(send, shm_groups.at(0));
  ASSERT_TRUE(theirs->Advance().ok());
  shm_groups.at(0).mine().send_slot(1, 1).published.copy_mode =
      GetParam().copy_mode;
  CollectiveOp receive =
      MakeCall(CollectiveKind::kRecv, /*point_to_point=*/true);
  receive.peer = 0;
  ExpectBlamed(MakeTask(receive, shm_groups.at(1))->Advance().status());
}

INSTANTIATE_TEST_SUITE_P(
    Ways, CorruptControlBlockTest,
    testing::Values(
        Wrong{"ManyAreSmall", 2 * kSmallBytes, CopyMode::kInline},
        Wrong{"FewAreStaged", kSmallMessageBytes, CopyMode::kStaged},
        Wrong{"FewAreDirect", kSmallMessageBytes, CopyMode::kDirect},
        Wrong{"FewAreLost", kSmallMessageBytes, CopyMode{0}},
        Wrong{"ManyAreBoxes", 2 * kSmallBytes, CopyMode::kBoxes},
        Wrong{"ManyAreLost", 2 * kSmallBytes, CopyMode{5}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::transport

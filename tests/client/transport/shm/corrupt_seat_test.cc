// What a rank does with a seat that something has written over, after all have
// met and agreed. The tasks of both ranks are advanced in turn, by hand.

#include <memory>
#include <ostream>
#include <vector>

#include "client/transport/blame.h"
#include "client/transport/shm/task.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/boards.h"

namespace lockstep::transport {
namespace {

// What is wrong for so many bytes: the way of fewer, of more, or none at all.
struct Wrong {
  const char* name;
  size_t bytes;
  Way way;

  friend void PrintTo(const Wrong& wrong, std::ostream* os) {
    *os << wrong.name;
  }
};

class CorruptSeatTest : public testing::TestWithParam<Wrong> {
 protected:
  CorruptSeatTest() : in_(2 * GetParam().bytes), out_(2 * GetParam().bytes) {}

  Call MakeCall(CallKind kind, bool point_to_point) {
    const bool scatters = kind == CallKind::kReduceScatter;
    return {.kind = kind,
            .in = in_.data(),
            .out = out_.data(),
            .count = GetParam().bytes / (scatters ? 2 : 1),
            .dtype = DType::kU8,
            .tag = FirstTag(point_to_point, 1)};
  }

  static void ExpectBlamed(const absl::Status& status) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(BlamedRank(status), 0) << status;
  }

  std::vector<std::byte> in_, out_;
};

TEST_P(CorruptSeatTest, ACellIsBlamedOnItsRank) {
  for (CallKind kind : {CallKind::kAllReduce, CallKind::kReduceScatter}) {
    SCOPED_TRACE(Name(kind));
    Boards boards(2);
    const Call call = MakeCall(kind, /*point_to_point=*/false);
    const auto theirs = MakeTask(call, boards.at(0));
    ASSERT_TRUE(theirs->Advance().ok());
    boards.at(0).mine().cell(1).said.way = GetParam().way;
    ExpectBlamed(MakeTask(call, boards.at(1))->Advance().status());
  }
}

TEST_P(CorruptSeatTest, AMailIsBlamedOnItsRank) {
  Boards boards(2);
  Call send = MakeCall(CallKind::kSend, /*point_to_point=*/true);
  send.peer = 1;
  const auto theirs = MakeTask(send, boards.at(0));
  ASSERT_TRUE(theirs->Advance().ok());
  boards.at(0).mine().mail(1, 1).said.way = GetParam().way;
  Call receive = MakeCall(CallKind::kRecv, /*point_to_point=*/true);
  receive.peer = 0;
  ExpectBlamed(MakeTask(receive, boards.at(1))->Advance().status());
}

INSTANTIATE_TEST_SUITE_P(
    Ways, CorruptSeatTest,
    testing::Values(Wrong{"ManyAreSmall", 2 * kSmallBytes, Way::kSmall},
                    Wrong{"FewAreStaged", kSmallMailBytes, Way::kStaged},
                    Wrong{"FewAreDirect", kSmallMailBytes, Way::kDirect},
                    Wrong{"FewAreLost", kSmallMailBytes, Way{0}},
                    Wrong{"ManyAreLost", 2 * kSmallBytes, Way{4}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::transport

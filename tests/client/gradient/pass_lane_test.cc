#include "client/gradient/pass_lane.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using testing::ElementsAre;

class PassLaneTest : public testing::Test {
 protected:
  std::vector<std::string> launched_;
  std::vector<int> untouched_;
  // This rank's parameters are 4 and 1 of the plan's.
  PassLane lane_{{4, 1},
                 {.reduction =
                      [this](int parameter, const BucketStore::Share& share) {
                        launched_.push_back(
                            absl::StrCat(parameter, " of ", share.announcers,
                                         share.gives ? ", gives" : ""));
                      },
                  .verdict =
                      [this](const std::vector<int>& untouched) {
                        launched_.push_back("verdict");
                        untouched_ = untouched;
                      }}};
};

TEST_F(PassLaneTest, LaunchesAsDecidedWhateverThisRankGives) {
  lane_.Begin({1});
  lane_.Decide({0, 1, 2});
  lane_.Decide({0, 4, 1});
  EXPECT_THAT(launched_, ElementsAre("1 of 2, gives", "0 of 1"));
}

TEST_F(PassLaneTest, PassesOverWhatOtherGroupsReduce) {
  lane_.Begin({});
  for (const uint32_t foreign : {0u, 2u, 3u, 5u, 99u}) {
    lane_.Decide({0, foreign, 1});
  }
  EXPECT_THAT(launched_, ElementsAre());
}

TEST_F(PassLaneTest, TheVerdictWaitsForTheCloseAndForFinish) {
  lane_.Begin({0});
  lane_.Finish();
  lane_.Decide({0, 4, 1});
  EXPECT_THAT(launched_, ElementsAre("0 of 1, gives"));
  lane_.Decide({.pass = 0});
  EXPECT_EQ(launched_.back(), "verdict");
  EXPECT_THAT(untouched_, ElementsAre(1));

  launched_.clear();
  lane_.Begin({});
  lane_.Decide({.pass = 1});
  EXPECT_THAT(launched_, ElementsAre());
  lane_.Finish();
  EXPECT_THAT(launched_, ElementsAre("verdict"));
  EXPECT_THAT(untouched_, ElementsAre(0, 1));
}

}  // namespace
}  // namespace lockstep::gradient

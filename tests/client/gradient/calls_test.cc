// What a program may call in whole jobs, with wrong arguments and too early.

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// --- Wrong calls -------------------------------------------------------------

class WrongCallsTest : public NegotiatedJob {
 protected:
  WrongCallsTest() { spec_.sync = SyncMode::kStatic; }

  static std::vector<ParameterOptions> One(int) {
    return {{.name = "w", .shape = {3}, .op = ReduceOp::kSum}};
  }

  void BeforeSeal(GradientSync& sync) override {
    const ParameterId w{0};
    for (const absl::Status& early :
         {sync.Gradient<float>(w).status(), sync.Value<float>(w).status(),
          sync.Slice(w).status(), sync.Submit(w), sync.AwaitParameter(w),
          sync.GatherParameters(), sync.BeginPass({w}), sync.NoSync().status(),
          sync.Finish().status()}) {
      EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition) << early;
    }
    EXPECT_EQ(sync.Register({.name = "w"}).status().code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(sync.overlap(), spec_.overlap);
    EXPECT_EQ(sync.exposed_seconds(), 0);
    EXPECT_EQ(sync.step(), 0u);
    sync.ZeroGradients();
    sync.OnMoved(nullptr);
    sync.SetMicroBatchWeight(0.5);
  }
};

TEST_F(WrongCallsTest, EndAsAStatusThatNamesTheParameter) {
  RunWell(2, One, [](Device& device) -> absl::Status {
    GradientSync& sync = device.sync;
    const absl::Status wrong_type =
        sync.Gradient<double>(device.ids[0]).status();
    EXPECT_EQ(wrong_type.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(wrong_type.message()),
                AllOf(HasSubstr("w is f32"), HasSubstr("8 bytes")));
    for (const int index : {-1, 1, 1 << 30}) {
      for (const absl::Status& unknown :
           {sync.Gradient<float>({index}).status(),
            sync.Slice({index}).status(), sync.Submit({index})}) {
        EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(unknown.message()),
                    HasSubstr(absl::StrCat("no parameter ", index)));
      }
    }
    EXPECT_EQ(sync.Value<float>(device.ids[0]).status().code(),
              absl::StatusCode::kFailedPrecondition);
    // Nothing has changed, and what was set before Seal holds.
    const float gradient[] = {2, 4, 6};
    LOCKSTEP_TEST_TRY(sync.Submit(device.ids[0], gradient, sizeof gradient));
    const absl::StatusOr<Verdict> verdict = sync.Finish();
    LOCKSTEP_TEST_TRY(verdict.status());
    EXPECT_THAT(*sync.Gradient<float>(device.ids[0]),
                testing::ElementsAre(2, 4, 6));
    return absl::OkStatus();
  });
}

TEST_F(WrongCallsTest, AViewOfAValueHasItsTypeToo) {
  spec_.sync = SyncMode::kReduceScatter;
  RunWell(2, One, [](Device& device) -> absl::Status {
    const absl::Status wrong =
        device.sync.Value<double>(device.ids[0]).status();
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("w is f32"));
    EXPECT_EQ(device.sync.Value<float>({5}).status().code(),
              absl::StatusCode::kInvalidArgument);
    return device.sync.Value<float>(device.ids[0]).status();
  });
}

}  // namespace
}  // namespace lockstep::gradient

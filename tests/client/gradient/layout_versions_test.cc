// The layout in effect, the next one, and the views of a program.

#include "client/gradient/layout_versions.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"

namespace lockstep::gradient {
namespace {

using ::testing::ElementsAre;

const BucketPolicy kOneEach = {.first_bytes_max = 1, .bytes_max = 1};

plan::Plan PlanOfTwo(int64_t more = 0) {
  plan::PlanInput input{.mesh = {{{"data", 2}}}, .policy = kOneEach};
  input.registrations.assign(2, {{.name = "a", .shape = {2 + more}},
                                 {.name = "b", .shape = {3 + more}}});
  return *plan::Compile(input);
}

using Layouts = LayoutVersions::Layouts;

// `sets`: of one revision, as with steps in flight.
Layouts LayoutsOf(const plan::Plan& plan, int sets = 1) {
  static const std::unique_ptr<Arena> arena = MakePlainArena();
  static const auto compute = transport::MakeHostDeviceContext();
  const auto shared = std::make_shared<const plan::Plan>(plan);
  Layouts layouts;
  for (int i = 0; i < sets; ++i) {
    auto layout =
        Layout::Create(shared, 0, {"a", "b"}, compute.get(),
                       [](size_t bytes) { return arena->Allocate(bytes); });
    EXPECT_TRUE(layout.ok()) << layout.status();
    layouts.push_back(*std::move(layout));
  }
  return layouts;
}

// Both in one bucket.
Layouts Next(const plan::Plan& plan, int sets = 1) {
  return LayoutsOf(*plan::Recut(plan, {}, {0, 1}), sets);
}

void Write(absl::Span<std::byte> view, float value) {
  float* data = reinterpret_cast<float*>(view.data());
  std::fill(data, data + view.size() / sizeof(float), value);
}

std::vector<float> Read(absl::Span<std::byte> view) {
  const float* data = reinterpret_cast<const float*>(view.data());
  return {data, data + view.size() / sizeof(float)};
}

class LayoutVersionsTest : public testing::Test {
 protected:
  const plan::Plan plan_ = PlanOfTwo();
  LayoutVersions versions_{LayoutsOf(plan_), nullptr};
};

TEST_F(LayoutVersionsTest, SwitchesOnceEverybodyHoldsTheNext) {
  EXPECT_FALSE(versions_.Prepare()) << "there is no next one";
  EXPECT_FALSE(*versions_.Switch());
  ASSERT_EQ(versions_.Stage(Next(plan_)), absl::OkStatus());
  EXPECT_TRUE(versions_.Prepare());
  versions_.Release();  // not everybody does
  EXPECT_EQ(versions_.revision(), Revision{1});
  EXPECT_TRUE(versions_.Prepare());
  EXPECT_TRUE(*versions_.Switch());
  EXPECT_EQ(versions_.revision(), Revision{2});
  EXPECT_EQ(versions_.current().revision(), Revision{2});
  EXPECT_EQ(versions_.current().TransferOf(0),
            versions_.current().TransferOf(1));
  EXPECT_FALSE(versions_.Prepare());
}

TEST_F(LayoutVersionsTest, HoldsTheNextRevisionAndNoOther) {
  const auto code = [this](const plan::Plan& plan) {
    return versions_.Stage(LayoutsOf(plan)).code();
  };
  EXPECT_EQ(code(plan_), absl::StatusCode::kFailedPrecondition);
  plan::Plan third = *plan::Recut(plan_, {}, {0, 1});
  third.revision = {3};
  EXPECT_EQ(code(third), absl::StatusCode::kFailedPrecondition);
  plan::Plan other = *plan::Recut(plan_, {}, {0, 1});
  other.communicators[1].name = "another";
  EXPECT_EQ(code(other), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(versions_.HasStaged());
  EXPECT_FALSE(versions_.Prepare());
}

TEST_F(LayoutVersionsTest, AHandlerFindsTheGradientsInTheirNewPlace) {
  std::vector<absl::Span<std::byte>> views;
  int calls = 0;
  versions_.OnMoved([&] {
    ++calls;
    EXPECT_THAT(Read(views[0]), ElementsAre(5, 5)) << "the old are there still";
    for (int p : {0, 1}) {
      const absl::Span<std::byte> view = versions_.View(p);
      EXPECT_NE(view.data(), views[p].data());
      views[p] = view;
    }
  });
  for (int p : {0, 1}) {
    views.push_back(versions_.View(p));
    Write(views[p], 5.0f + p);
  }
  ASSERT_TRUE(versions_.CanMove());
  ASSERT_EQ(versions_.Stage(Next(plan_)), absl::OkStatus());
  ASSERT_TRUE(versions_.Prepare());
  ASSERT_TRUE(*versions_.Switch());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(Read(views[0]), ElementsAre(5, 5));
  EXPECT_THAT(Read(views[1]), ElementsAre(6, 6, 6));
  EXPECT_EQ(views[1].data(), versions_.current().store().View(1).data());
}

// Reads memory that another thread writes meanwhile.
__attribute__((no_sanitize("thread"))) bool IsZero(const volatile float* at) {
  return *at == 0;
}

// A call after the copy has begun returns before the copy ends, unless the
// thread is scheduled too late: then the next copy is tried.
TEST_F(LayoutVersionsTest, NobodyWaitsForTheGradientsToBeCopied) {
  const plan::Plan big = PlanOfTwo(4 << 20);
  bool answered = false;
  for (int copies = 0; copies < 50 && !answered; ++copies) {
    LayoutVersions versions(LayoutsOf(big), [] {});
    Write(versions.View(0), 1);
    Layouts next = Next(big);
    const auto* midway =
        reinterpret_cast<float*>(next[0]->store().View(0).data()) + (2 << 20);
    ASSERT_EQ(versions.Stage(std::move(next)), absl::OkStatus());
    ASSERT_TRUE(versions.Prepare());
    std::thread comm([&] { EXPECT_TRUE(*versions.Switch()); });
    while (IsZero(midway)) std::this_thread::yield();
    answered = versions.HasStaged();
    comm.join();
  }
  EXPECT_TRUE(answered);
}

TEST_F(LayoutVersionsTest, ViewsWithoutAHandlerStayValidForGood) {
  const absl::Span<std::byte> view = versions_.View(0);
  EXPECT_FALSE(versions_.CanMove());
  EXPECT_EQ(versions_.Stage(Next(plan_)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(versions_.Prepare());
  EXPECT_EQ(versions_.View(0).data(), view.data());
  versions_.OnMoved([] {});
  EXPECT_TRUE(versions_.CanMove()) << "a handler may come later";
  EXPECT_EQ(versions_.Stage(Next(plan_)), absl::OkStatus());
}

TEST_F(LayoutVersionsTest, AFirstViewGivesUpWhatWasHeld) {
  ASSERT_EQ(versions_.Stage(Next(plan_)), absl::OkStatus());
  versions_.View(0);
  EXPECT_FALSE(versions_.Prepare());
}

TEST_F(LayoutVersionsTest, AFirstViewAfterAPromiseWaitsForTheVerdict) {
  for (const bool everyone : {true, false}) {
    LayoutVersions versions(LayoutsOf(plan_), nullptr);
    ASSERT_EQ(versions.Stage(Next(plan_)), absl::OkStatus());
    ASSERT_TRUE(versions.Prepare());
    std::atomic<bool> settled{false};
    std::thread program([&] {
      const absl::Span<std::byte> view = versions.View(0);
      EXPECT_TRUE(settled);
      EXPECT_EQ(view.data(), versions.current().store().View(0).data());
    });
    std::thread comm([&] {
      settled = true;
      if (everyone) {
        EXPECT_TRUE(*versions.Switch());
      } else {
        versions.Release();
      }
    });
    comm.join();
    program.join();
    EXPECT_EQ(versions.revision(), Revision{everyone ? 2u : 1u});
    EXPECT_FALSE(versions.Prepare());
  }
}

// --- Steps in flight ---------------------------------------------------------

TEST_F(LayoutVersionsTest, StepsTakeTurnsWithTheLayouts) {
  LayoutVersions versions(LayoutsOf(plan_, 3), [] {});
  std::vector<const std::byte*> views;
  for (int step = 0; step < 3; ++step) {
    views.push_back(versions.View(0).data());
    EXPECT_EQ(versions.current().store().View(0).data(), views.back());
    Write(versions.View(0), 1.0f + step);
    EXPECT_TRUE(versions.Rotate());
  }
  EXPECT_EQ(versions.View(0).data(), views[0]) << "after three steps";
  EXPECT_NE(views[1], views[0]);
  EXPECT_NE(views[2], views[1]);
  versions.Rotate();
  ASSERT_EQ(versions.Stage(Next(plan_, 3)), absl::OkStatus());
  ASSERT_TRUE(versions.Prepare());
  ASSERT_TRUE(*versions.Switch());
  EXPECT_EQ(versions.turn(), 1u) << "a switch does not change it";
  EXPECT_THAT(Read(versions.View(0)), ElementsAre(2, 2));
  versions.Rotate();
  EXPECT_THAT(Read(versions.View(0)), ElementsAre(3, 3));
}

TEST_F(LayoutVersionsTest, AStagedRevisionStaysWhileAStepOfSeveralNeedsIt) {
  ASSERT_EQ(versions_.Stage(Next(plan_)), absl::OkStatus());
  EXPECT_TRUE(versions_.Prepare());
  EXPECT_TRUE(versions_.Prepare());
  versions_.Release();
  EXPECT_EQ(versions_.Stage(Next(plan_)).code(),
            absl::StatusCode::kFailedPrecondition)
      << "the second step has promised the first one";
  EXPECT_TRUE(*versions_.Switch());
  EXPECT_EQ(versions_.revision(), Revision{2});
}

TEST_F(LayoutVersionsTest, FormerBucketsLiveUntilTheyAreForgotten) {
  LayoutVersions versions(LayoutsOf(plan_), [] {});
  const absl::Span<std::byte> before = versions.View(0);
  Write(before, 4);
  ASSERT_EQ(versions.Stage(Next(plan_)), absl::OkStatus());
  ASSERT_TRUE(versions.Prepare());
  ASSERT_TRUE(*versions.Switch());
  EXPECT_THAT(Read(before), ElementsAre(4, 4)) << "a stream may read them";
  versions.ForgetFormer();
}

}  // namespace
}  // namespace lockstep::gradient

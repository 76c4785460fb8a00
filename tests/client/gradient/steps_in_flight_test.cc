#include "client/gradient/steps_in_flight.h"

#include <memory>

#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using Step = StepsInFlight::Step;

Step MakeStep() {
  return std::make_shared<PendingVerdict::State>(
      [](const absl::Status& error) { return error; });
}

Step Close(StepsInFlight& steps) {
  const Step step = MakeStep();
  steps.Close(step, nullptr);
  return step;
}

TEST(StepsInFlightTest, NumbersThemInTheirOrder) {
  StepsInFlight steps(/*on_device=*/true, 1, Uneven::kStop);
  const Step first = Close(steps);
  const Step graph = MakeStep();
  EXPECT_EQ(steps.TakeWaiting(), first);
  steps.Launch(graph, nullptr);
  const Step third = Close(steps);
  EXPECT_EQ(first->launch, 0u);
  EXPECT_EQ(graph->launch, 1u);
  EXPECT_EQ(third->launch, 2u);
  EXPECT_EQ(steps.launches(), 3u);
  EXPECT_EQ(steps.count(), 3);
  EXPECT_EQ(steps.undecided(), 2);  // the third waits
  for (const Step& step : {first, graph, third}) {
    EXPECT_EQ(steps.Find(step->launch), step);
  }
  EXPECT_EQ(steps.Find(3), nullptr);
}

TEST(StepsInFlightTest, TheNextAwaitsTheOneRunAheadAndOneBefore) {
  StepsInFlight steps(/*on_device=*/true, 1, Uneven::kStop);
  EXPECT_EQ(steps.AwaitedByNext(), nullptr);
  const Step first = Close(steps);
  EXPECT_EQ(steps.AwaitedByNext(), nullptr);
  Close(steps);
  EXPECT_EQ(steps.AwaitedByNext(), first);
}

TEST(StepsInFlightTest, OnAHostOnlyTheOneLaunchedLastIsKept) {
  StepsInFlight steps(/*on_device=*/false, 0, Uneven::kStop);
  const Step first = Close(steps);
  EXPECT_EQ(steps.Find(0), nullptr);
  EXPECT_EQ(steps.TakeWaiting(), first);
  EXPECT_EQ(steps.Find(0), first);
  EXPECT_EQ(steps.undecided(), 0);
  Close(steps);
  EXPECT_EQ(steps.GiveUpWaiting().size(), 1u);
  EXPECT_EQ(steps.TakeWaiting(), nullptr);
  steps.End();
  EXPECT_EQ(steps.count(), 1);
}

TEST(StepsInFlightTest, AnEagerStepForgetsTheGraph) {
  StepsInFlight steps(/*on_device=*/true, 1, Uneven::kStop);
  const auto graph = std::make_shared<Captured>();
  steps.Launch(MakeStep(), nullptr);
  steps.Launched({graph, Event()});
  EXPECT_EQ(steps.last_graph().graph, graph);
  Close(steps);
  EXPECT_EQ(steps.last_graph().graph, nullptr);
}

TEST(StepsInFlightTest, AreOverBehindTheLastLaunch) {
  StepsInFlight steps(/*on_device=*/true, 1, Uneven::kStop);
  Close(steps);
  steps.TakeWaiting();
  Verdict out_of_data{.with_more_data = 0, .world_size = 1};
  steps.effects().Apply(0, &out_of_data);
  steps.Decided();
  EXPECT_FALSE(steps.are_over()) << "a void step is missing";
  Close(steps);
  EXPECT_FALSE(steps.are_over());
  steps.TakeWaiting();
  EXPECT_FALSE(steps.are_over());
  steps.Decided();
  EXPECT_TRUE(steps.are_over());
}

}  // namespace
}  // namespace lockstep::gradient

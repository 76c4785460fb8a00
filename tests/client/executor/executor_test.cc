#include "client/executor/executor.h"

#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inproc_world.h"
#include "tests/support/recording_communicator.h"

namespace lockstep::executor {
namespace {

using plan::LaneKind;
using plan::LocalKind;
using plan::Transfer;
using plan::TransferKind;
using plan::TransferRef;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TransferRef kVerdict = {2, 0};

// The only rank of its groups, so each operation completes when it is launched.
//
//   lane 0  gradient  three all-reduces, of 1, 2 and 3 elements
//   lane 1  shared    an all-reduce of 9 elements, after the only task
//   lane 2  verdict   a group of two all-reduces, of 13 and 8 elements
class ExecutorTest : public testing::Test, public LaneOwner {
 protected:
  ExecutorTest() : plan_(std::make_shared<plan::Plan>()) {
    plan_->communicators = {{"world", {0}}, {"data", {0}}, {"shared", {0}}};
    plan_->ranks.resize(1);
    plan::RankPlan& mine = plan_->ranks[0];
    mine.tasks.resize(1);
    mine.lanes = {{.kind = LaneKind::kGradient, .name = "gradient"},
                  {.kind = LaneKind::kPipeline, .name = "shared"},
                  {.kind = LaneKind::kVerdict, .name = "verdict"}};
    for (const int64_t count : {1, 2, 3}) Add(0, 1, count);
    Add(1, 2, 9).after_task = 0;
    Add(2, 0, 13).group = 1;
    Add(2, 0, 8).group = 1;
  }
  ~ExecutorTest() override {
    if (executor_ != nullptr) executor_->Close();
  }

  Transfer& Add(int lane, int communicator, int64_t count) {
    plan::RankPlan& mine = plan_->ranks[0];
    std::vector<Transfer>& transfers = mine.lanes[lane].transfers;
    mine.launch_order.push_back({lane, static_cast<int>(transfers.size())});
    return transfers.emplace_back(
        Transfer{.communicator = communicator, .shape = {count}});
  }
  Transfer& At(int lane, int index) {
    return plan_->ranks[0].lanes[lane].transfers[index];
  }

  // `decided`: the gradient lane runs in the order of the MarkReady calls.
  absl::Status Begin(bool one_order = false, bool decided = false) {
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (const plan::CommunicatorSpec& c : plan_->communicators) {
      communicators.push_back(std::make_unique<RecordingCommunicator>(
          c.name, std::move(world_.Connect(c.name, 1)[0]), &recorder_));
    }
    executor_ = *Executor::Create(std::move(communicators),
                                  transport::MakeHostDeviceContext());
    auto program = Program::Create(
        plan_, 0,
        {.run_of =
             [decided](const plan::Lane& lane) {
               if (lane.kind == LaneKind::kPipeline) return LaneRun::kStream;
               return decided && lane.kind == LaneKind::kGradient
                          ? LaneRun::kDecided
                          : LaneRun::kQueued;
             },
         .pending_of =
             [](const plan::Lane& lane, const Transfer& transfer) {
               switch (lane.kind) {
                 case LaneKind::kVerdict:
                   return &transfer == &lane.transfers[0] ? 1 : 0;
                 case LaneKind::kPipeline:
                   return transfer.after_task >= 0 ? 1 : 0;
                 default: return 1;
               }
             },
         .owner_of = [this](const plan::Lane&) { return this; },
         .communicator = [this](int c) { return executor_->communicator(c); },
         .one_order = one_order});
    if (!program.ok()) return program.status();
    absl::Status adopted = executor_->Adopt(*std::move(program));
    executor_->SetOwner(LaneKind::kPipeline, this);
    return adopted;
  }

  void Ready(TransferRef ref) {
    ASSERT_EQ(executor_->MarkReady(ref), absl::OkStatus());
  }
  // The elements of each all-reduce, in the order in which they ran.
  std::vector<size_t> Ran() {
    executor_->Drain();
    executor_->Synchronize(1);
    std::vector<size_t> ran;
    for (const RecordedCall& call : recorder_.calls())
      ran.push_back(call.count);
    return ran;
  }

  // Called by several lanes at once.
  Operands OperandsOf(TransferRef ref, const Transfer&) override {
    return {memory_[ref.lane], memory_[ref.lane]};
  }
  absl::Status Apply(transport::DeviceContext::KernelQueue&,
                     const Transfer& transfer, Side side, bool) override {
    const bool is_before = side == Side::kBefore;
    for (const plan::LocalOp& op :
         is_before ? transfer.before : transfer.then) {
      done_.push_back(absl::StrCat(is_before ? "before " : "behind ",
                                   CountOf(transfer), ": ",
                                   std::string(Name(op.kind))));
    }
    return is_before ? before_ : absl::OkStatus();
  }
  void Failed(const Transfer& transfer, int communicator,
              const absl::Status& error) override {
    done_.push_back(absl::StrCat("failed ", CountOf(transfer), " on ",
                                 communicator, ": ", error.message()));
  }

  const std::shared_ptr<plan::Plan> plan_;
  double memory_[4][16] = {};
  testing_support::InprocWorld world_;
  Recorder recorder_;
  std::shared_ptr<Executor> executor_;
  std::vector<std::string> done_;
  absl::Status before_;
};

TEST_F(ExecutorTest, LaunchesInThePlansOrder) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 1});
  EXPECT_THAT(Ran(), IsEmpty());
  Ready({0, 0});
  EXPECT_THAT(Ran(), ElementsAre(1, 2));
  Ready({0, 2});
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3));
}

TEST_F(ExecutorTest, TheVerdictIsLastAndBeginsTheNextStep) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  for (int step = 0; step < 2; ++step) {
    Ready(kVerdict);
    Ready({0, 2});
    Ready({0, 0});
    Ready({0, 1});
  }
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3, 13, 8, 1, 2, 3, 13, 8));
}

TEST_F(ExecutorTest, WhatIsReadyTwiceInAStepIsRefused) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 1});
  const absl::Status again = executor_->MarkReady({0, 1});
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()),
              HasSubstr("all-reduce of 2 f32, sum in lane gradient is ready"));
}

TEST_F(ExecutorTest, ATransferThatWaitsForSeveralThingsGetsAllOfThem) {
  At(0, 0).group = At(0, 1).group = 7;  // one group of two
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 1});
  EXPECT_THAT(Ran(), IsEmpty());
  Ready({0, 0});
  EXPECT_THAT(Ran(), ElementsAre(1, 2));
}

TEST_F(ExecutorTest, ATransferOfAnotherLaneComesFirst) {
  At(0, 1).after = {{1, 0}};
  ASSERT_EQ(Begin(), absl::OkStatus());
  EXPECT_TRUE(executor_->IsBehindStreams({0, 1})) << "before the run, too";
  executor_->BeginRun();
  for (const int i : {0, 1, 2}) Ready({0, i});
  EXPECT_TRUE(executor_->IsBehindStreams({0, 1}));
  EXPECT_FALSE(executor_->IsBehindStreams({0, 2}));
  EXPECT_THAT(Ran(), ElementsAre(1));
  Ready({1, 0});
  executor_->Advance();
  EXPECT_FALSE(executor_->IsBehindStreams({0, 1}));
  EXPECT_THAT(Ran(), ElementsAre(1, 9, 2, 3));
  executor_->EndRun();
}

TEST_F(ExecutorTest, AnotherLaneIsSkippedInAStepThatDoesNotRunIt) {
  At(0, 1).after = {{1, 0}};
  ASSERT_EQ(Begin(), absl::OkStatus());
  for (const int i : {0, 1, 2}) Ready({0, i});
  EXPECT_THAT(Ran(), ElementsAre(1));
  executor_->EndStep();
  Ready(kVerdict);
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3, 13, 8));
  // The next step waits for it again.
  for (const int i : {0, 1, 2}) Ready({0, i});
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3, 13, 8, 1));
}

TEST_F(ExecutorTest, ASecondRunOfAnotherLaneBeginsAnew) {
  At(0, 1).after = {{1, 0}};
  ASSERT_EQ(Begin(), absl::OkStatus());
  for (int run = 0; run < 2; ++run) {
    executor_->BeginRun();
    Ready({1, 0});
    EXPECT_TRUE(executor_->Launched({1, 0}).ok());
    executor_->EndRun();
  }
  EXPECT_THAT(Ran(), ElementsAre(9, 9));
}

// A pipeline's receives wait only for their run.
TEST_F(ExecutorTest, APipelineLaneIsLaunchedInARunOnly) {
  At(1, 0).after_task = -1;
  ASSERT_EQ(Begin(), absl::OkStatus());
  for (int step = 0; step < 2; ++step) {
    executor_->Advance();
    Ready({0, 0});
    EXPECT_EQ(Ran().size(), 6u * step + 1);
    executor_->BeginRun();
    EXPECT_TRUE(executor_->Launched({1, 0}).ok());
    executor_->EndRun();
    executor_->EndStep();
    for (const TransferRef& ref : {TransferRef{0, 1}, {0, 2}, kVerdict}) {
      Ready(ref);
    }
  }
  EXPECT_THAT(Ran(), ElementsAre(1, 9, 2, 3, 13, 8, 1, 9, 2, 3, 13, 8));
}

// The run before may use the buffers on a device, and the verdict stands behind
// its messages.
TEST_F(ExecutorTest, NoMessageBeginsBeforeItsBuffersAreFree) {
  At(1, 0).after_task = -1;
  ASSERT_EQ(Begin(), absl::OkStatus());
  HostStream last_run;
  std::promise<void> free;
  last_run.Enqueue([freed = free.get_future().share()] {
    freed.wait();
    return absl::OkStatus();
  });
  executor_->BeginRun(last_run.Record());
  const absl::StatusOr<Event> message = executor_->Launched({1, 0});
  ASSERT_TRUE(message.ok()) << message.status();
  executor_->EndRun();
  executor_->EndStep();
  for (const TransferRef& ref : {TransferRef{0, 0}, {0, 1}, {0, 2}, kVerdict}) {
    Ready(ref);
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(message->Wait(absl::Milliseconds(20))));
  while (recorder_.calls().size() < 4) std::this_thread::yield();
  EXPECT_EQ(recorder_.calls().size(), 4u) << "the message and the gradients";
  free.set_value();
  EXPECT_THAT(Ran(), ElementsAre(9, 1, 2, 3, 13, 8));
}

// The launch order has the gradients before the message.
TEST_F(ExecutorTest, InOneOrderAMessageWaitsForGradientsBeforeIt) {
  ASSERT_EQ(Begin(/*one_order=*/true), absl::OkStatus());
  executor_->BeginRun();
  Ready({0, 0});
  Ready({0, 1});
  Ready({1, 0});
  const auto held = executor_->Launched({1, 0});
  EXPECT_EQ(held.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.status().message()),
              HasSubstr("all-reduce of 9 f32, sum in lane shared comes behind "
                        "all-reduce of 3 f32, sum in lane gradient, which is "
                        "not ready"));
  Ready({0, 2});
  EXPECT_TRUE(executor_->Launched({1, 0}).ok());
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3, 9));
  executor_->EndRun();
}

// A second lane of messages, behind the first one in the launch order.
class TwoMessageLanes : public ExecutorTest {
 protected:
  TwoMessageLanes() {
    plan_->communicators.push_back({"message", {0}});
    plan_->ranks[0].lanes.push_back(
        {.kind = LaneKind::kPipeline, .name = "message"});
    Add(3, 3, 10).after_task = 0;
    std::vector<TransferRef>& order = plan_->ranks[0].launch_order;
    std::rotate(order.begin() + 4, order.end() - 1, order.end());
  }
  // All but the last gradient.
  void ReadyButOne() {
    executor_->BeginRun();
    for (const TransferRef& ref : {TransferRef{0, 0}, {0, 1}, {1, 0}, {3, 0}}) {
      Ready(ref);
    }
  }
};

TEST_F(TwoMessageLanes, WhatIsNotReadyIsNamedNotWhatWaitsForItToo) {
  ASSERT_EQ(Begin(/*one_order=*/true), absl::OkStatus());
  ReadyButOne();
  const auto held = executor_->Launched({3, 0});
  EXPECT_EQ(held.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.status().message()),
              HasSubstr("all-reduce of 10 f32, sum in lane message comes "
                        "behind all-reduce of 3 f32, sum in lane gradient, "
                        "which is not ready"));
  Ready({0, 2});
  EXPECT_TRUE(executor_->Launched({3, 0}).ok());
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3, 9, 10));
  executor_->EndRun();
}

// The second message was never launched, and not because of this rank's
// gradients.
TEST_F(TwoMessageLanes, WhatComesBehindALaneThatFailedHasItsError) {
  At(1, 0).kind = TransferKind::kSend;
  At(1, 0).peer = 7;  // refused when it is launched
  ASSERT_EQ(Begin(/*one_order=*/true), absl::OkStatus());
  ReadyButOne();
  Ready({0, 2});
  const auto held = executor_->Launched({3, 0});
  EXPECT_TRUE(absl::IsInvalidArgument(held.status())) << held.status();
  executor_->EndRun();
}

TEST_F(ExecutorTest, InOneOrderGradientsWaitForAMessageBeforeThem) {
  std::vector<TransferRef>& order = plan_->ranks[0].launch_order;
  std::rotate(order.begin(), order.begin() + 3, order.begin() + 4);
  ASSERT_EQ(Begin(/*one_order=*/true), absl::OkStatus());
  for (const int i : {0, 1, 2}) Ready({0, i});
  EXPECT_THAT(Ran(), IsEmpty());
  EXPECT_FALSE(executor_->IsBehindStreams({0, 1})) << "it does not need it";
  executor_->BeginRun();
  Ready({1, 0});
  executor_->Advance();
  EXPECT_THAT(Ran(), ElementsAre(9, 1, 2, 3));
  executor_->EndRun();
}

TEST_F(ExecutorTest, DecidedLanesRunInTheOrderOfTheDecisions) {
  ASSERT_EQ(Begin(/*one_order=*/false, /*decided=*/true), absl::OkStatus());
  Ready({0, 2});
  Ready({0, 0});
  Ready(kVerdict);
  Ready({0, 0});
  EXPECT_THAT(Ran(), ElementsAre(3, 1, 13, 8, 1));
}

TEST_F(ExecutorTest, WhatWasMarkedBeforeARestartDoesNotCount) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 1});
  executor_->RestartStep();
  Ready({0, 0});
  EXPECT_THAT(Ran(), ElementsAre(1));
  Ready({0, 1});
  EXPECT_THAT(Ran(), ElementsAre(1, 2));
}

TEST_F(ExecutorTest, EventsAreWaitedFor) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  HostStream gate;
  std::promise<void> open;
  gate.Enqueue([opened = open.get_future().share()] {
    opened.wait();
    return absl::OkStatus();
  });
  executor_->AddEvent({0, 1}, gate.Record());
  for (const int i : {0, 1, 2}) Ready({0, i});
  while (recorder_.calls().empty()) std::this_thread::yield();
  EXPECT_EQ(recorder_.calls().size(), 1u);
  open.set_value();
  EXPECT_THAT(Ran(), ElementsAre(1, 2, 3));
}

TEST_F(ExecutorTest, OnCloseNothingRunsBeforeTheVerdictIsLaunched) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  executor_->SetQueueRuns(QueueRuns::kOnClose);
  Ready(kVerdict);
  for (const int i : {0, 1}) Ready({0, i});
  EXPECT_THAT(recorder_.calls(), IsEmpty());
  Ready({0, 2});  // the thread that launches the verdict also runs the step
  EXPECT_EQ(recorder_.calls().size(), 5u);
}

TEST_F(ExecutorTest, LocalOperationsOfAGroupAreAroundAllOfIt) {
  At(0, 0).group = At(0, 1).group = 7;
  At(0, 0).before = {{.kind = LocalKind::kCast}};
  At(0, 1).before = {{.kind = LocalKind::kWriteFlags}};
  At(0, 0).then = {{.kind = LocalKind::kCast}, {.kind = LocalKind::kNorm}};
  At(0, 1).then = {{.kind = LocalKind::kReadFlags}};
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 0});
  Ready({0, 1});
  EXPECT_THAT(Ran(), ElementsAre(1, 2));
  EXPECT_THAT(done_, ElementsAre("before 1: cast", "before 2: write-flags",
                                 "behind 1: cast", "behind 1: norm",
                                 "behind 2: read-flags"));
}

TEST_F(ExecutorTest, AnErrorBeforeATransferKeepsItFromBeingLaunched) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  before_ = absl::InternalError("no memory");
  Ready({0, 0});
  EXPECT_THAT(Ran(), IsEmpty());
  EXPECT_THAT(done_, ElementsAre("failed 1 on -1: no memory"));
}

TEST_F(ExecutorTest, AfterAnAbortTransfersFailOnTheirCommunicator) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  executor_->Abort(absl::CancelledError("the job is over"));
  Ready({0, 0});
  (void)Ran();
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_THAT(done_[0], HasSubstr("failed 1 on 1: "));
  EXPECT_THAT(done_[0], HasSubstr("the job is over"));
}

TEST_F(ExecutorTest, NothingIsLaunchedOnceItIsClosed) {
  ASSERT_EQ(Begin(), absl::OkStatus());
  Ready({0, 0});
  executor_->Close();
  Ready({0, 1});
  executor_->Advance();
  EXPECT_EQ(recorder_.calls().size(), 1u);
  EXPECT_EQ(executor_->communicator(0), nullptr);
  EXPECT_EQ(executor_->communicator(1), nullptr);
  EXPECT_NE(executor_->communicator(2), nullptr);
  EXPECT_EQ(executor_->Launched({1, 0}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExecutorTest, LanesWithStreamsHaveNoLocalOperations) {
  At(1, 0).then = {{.kind = LocalKind::kNorm}};
  const absl::Status begun = Begin();
  EXPECT_EQ(begun.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(begun.message()),
              HasSubstr("lane shared, transfer 0"));
}

TEST_F(ExecutorTest, LanesWithStreamsDoNotComeAfterAnotherLaneOfTheQueue) {
  At(1, 0).after = {{0, 1}};
  const absl::Status begun = Begin();
  EXPECT_EQ(begun.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(begun.message()),
              HasSubstr("comes after transfer 1 of lane gradient"));
}

}  // namespace
}  // namespace lockstep::executor

// Ten thousand workers in one coordinator: costs that must not be quadratic in
// their number. Times are printed, not checked; a quadratic cost would exceed
// the test's timeout.

#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/sim_cluster.h"
#include "tests/support/plans_as_text.h"
#include "tests/support/sanitizers.h"

namespace lockstep::core {
namespace {

constexpr int kWorkers = kUnderSanitizer ? 1000 : 10'000;

class ScaleTest : public testing::Test {
 protected:
  ScaleTest() {
    spec_.timeouts.progress = absl::Seconds(5);
    for (int i = 0; i < kWorkers; ++i) names_.push_back(W(i));
  }

  void Measure(const std::string& what, const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    std::cout << kWorkers << " workers: " << what << ": " << took.count()
              << " s\n";
    RecordProperty(what, std::to_string(took.count()));
  }

  Effects Says(int i, protocol::ToCoordinatorBody body) {
    Effects effects = core_.Step(
        now_, MessageReceived{{static_cast<uint64_t>(i + 1)},
                              {{spec_.name}, {1}, {1}, std::move(body)}});
    for (const Effect& effect : effects) {
      const auto* compile = std::get_if<Compile>(&effect);
      if (compile == nullptr) continue;
      core_.Step(now_, Compiled{compile->id, compile->job,
                                MakePlan(*compile->input, PlansAsText())});
    }
    return effects;
  }
  void AllSay(const std::function<protocol::ToCoordinatorBody(int)>& body) {
    for (int i = 0; i < kWorkers; ++i) Says(i, body(i));
  }
  // Every communicator of this job has all ranks.
  protocol::PublishHandles HandlesOf(int i) {
    const auto plan = core_.FindPlan(
        {spec_.name}, core_.durable().jobs.at({spec_.name}).plan_digest);
    protocol::PublishHandles publish;
    for (size_t c = 0; c < plan->communicators.size(); ++c) {
      publish.handles.push_back(
          {static_cast<int>(c), absl::StrCat("handle ", i)});
    }
    return publish;
  }
  protocol::Hello HelloOf(int i) {
    return {.worker = names_[i],
            .incarnation = static_cast<uint64_t>(i + 1),
            .spec = spec_,
            .process = {.host = absl::StrCat("host-", i / 8),
                        .pid = i + 1,
                        .boot_id = "boot",
                        .start_time = 1}};
  }
  void JoinAll() {
    AllSay([this](int i) { return HelloOf(i); });
  }
  void RunAll() {
    JoinAll();
    AllSay([](int) {
      return protocol::RegisterChunk{.last = true,
                                     .parameters = {ParameterNamed("weight")}};
    });
    const DurableJob& job = core_.durable().jobs.at({spec_.name});
    AllSay([&](int) {
      return protocol::PlanAck{job.revision, job.plan_digest};
    });
    AllSay([this](int i) { return HandlesOf(i); });
    AllSay([](int) { return protocol::Connected{}; });
    EXPECT_EQ(core_.Jobs()[0].state, JobState::kRunning);
  }

  JobSpec spec_ = SpecOf(kWorkers);
  std::vector<WorkerName> names_;
  absl::Time now_ = At(0);
  Coordinator core_{CoordinatorOptions{}};
};

TEST_F(ScaleTest, FormsRegistersPlansConnectsAndStarts) {
  Measure("join", [this] { JoinAll(); });
  EXPECT_EQ(core_.Jobs()[0].state, JobState::kSealed);
  Measure("register and plan", [this] {
    AllSay([](int) {
      return protocol::RegisterChunk{
          .last = true,
          .parameters = {ParameterNamed("weight"), ParameterNamed("bias")}};
    });
  });
  const DurableJob& job = core_.durable().jobs.at({spec_.name});
  Measure("acknowledge, exchange handles, connect", [&] {
    AllSay([&](int) {
      return protocol::PlanAck{job.revision, job.plan_digest};
    });
    AllSay([this](int i) { return HandlesOf(i); });
    AllSay([](int) { return protocol::Connected{}; });
  });
  EXPECT_EQ(core_.Jobs()[0].state, JobState::kRunning);
  Measure("heartbeat of all",
          [this] { AllSay([](int) { return protocol::Heartbeat{}; }); });
  Measure("progress of all", [this] {
    AllSay([](int i) {
      return protocol::Progress{.position = {static_cast<uint64_t>(i % 2),
                                             protocol::Phase::kCompute}};
    });
  });
  Measure("describe", [this] {
    EXPECT_EQ(core_.Describe({spec_.name}, now_)->workers.size(),
              static_cast<size_t>(kWorkers));
  });
  Measure("leave of all", [this] {
    AllSay([](int) { return protocol::Leave{.clean = true, .steps = 2}; });
  });
  EXPECT_EQ(core_.Jobs()[0].state, JobState::kCompleted);
}

TEST_F(ScaleTest, NamesEveryMissingWorkerAtTheDeadline) {
  for (int i = 0; i < kWorkers; i += 2) Says(i, HelloOf(i));
  Effects effects;
  Measure("miss the deadline", [&] {
    for (int second = 1; second <= 60; ++second) {
      now_ = At(second);
      for (int i = 0; i < kWorkers; i += 2) Says(i, protocol::Heartbeat{});
      effects = core_.Step(now_, TimerExpired{});
    }
  });
  EXPECT_EQ(core_.Jobs()[0].state, JobState::kFailed);
  int refused = 0;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    const auto& message = std::get<protocol::Refused>(send->message.body);
    EXPECT_NE(message.message.find(names_[1].value), std::string::npos);
    EXPECT_NE(message.message.find(names_[kWorkers - 1].value),
              std::string::npos);
    ++refused;
  }
  EXPECT_EQ(refused, kWorkers / 2);
}

TEST_F(ScaleTest, FindsTheOneThatAllWaitFor) {
  RunAll();
  AllSay([](int i) {
    return protocol::Progress{
        .position = {7, i == 17 ? protocol::Phase::kCompute
                                : protocol::Phase::kTransfer}};
  });
  Measure("30 s of a stall", [this] {
    for (int second = 1; second <= 30; ++second) {
      now_ = At(second);
      AllSay([](int) { return protocol::Heartbeat{}; });
      core_.Step(now_, TimerExpired{});
    }
  });
  const JobView view = *core_.Describe({spec_.name}, now_);
  ASSERT_EQ(view.stalls.size(), 1u);
  EXPECT_NE(view.stalls[0].text.find("w-17 (rank 17"), std::string::npos);
  EXPECT_EQ(view.waits.size(), static_cast<size_t>(kWorkers - 1));
}

TEST_F(ScaleTest, TellsAllWhenOneDies) {
  RunAll();
  Effects effects;
  Measure("one death", [&] {
    effects = core_.Step(now_, ReportEvidence{{1},
                                              {spec_.name},
                                              "",
                                              {.subject = names_[5],
                                               .process = HelloOf(5).process}});
  });
  int told = 0;
  for (const Effect& effect : effects) {
    if (std::holds_alternative<Send>(effect)) ++told;
  }
  EXPECT_EQ(told, kWorkers - 1);
}

}  // namespace
}  // namespace lockstep::core

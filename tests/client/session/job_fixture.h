// Whole jobs of four ranks in one process, with any coordinator.

#ifndef LOCKSTEP_TESTS_CLIENT_SESSION_JOB_FIXTURE_H_
#define LOCKSTEP_TESTS_CLIENT_SESSION_JOB_FIXTURE_H_

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/session/session_impl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::session {

template <typename T>
using Each = std::vector<std::future<T>>;

class JobFixture : public testing::Test {
 protected:
  using Joined = absl::StatusOr<std::unique_ptr<Session>>;

  JobFixture() {
    spec_.timeouts.join = absl::Seconds(20);
    spec_.timeouts.resume = absl::Seconds(10);  // for slow machines
  }

  JoinOptions OptionsOf(int worker) {
    return {.addresses = {"core"},
            .job = "job",
            .worker = "worker-" + std::to_string(worker),
            .spec = spec_};
  }

  // Blocks, as Session::Join.
  virtual Joined Join(const JoinOptions& options) = 0;

  std::future<Joined> JoinAsync(const JoinOptions& options) {
    return std::async(std::launch::async,
                      [this, options] { return Join(options); });
  }

  // Joins all ranks concurrently; sessions_ is in rank order.
  void JoinAll() {
    Each<Joined> joining;
    for (int i = 0; i < kWorld; ++i) joining.push_back(JoinAsync(OptionsOf(i)));
    for (auto& each : joining) {
      Joined session = each.get();
      ASSERT_TRUE(session.ok()) << session.status();
      sessions_.push_back(*std::move(session));
    }
  }

  // Runs call(internals, rank) on all ranks concurrently.
  template <typename Call>
  auto OnAll(Call call) {
    using Result = decltype(call(sessions_[0]->impl(), 0));
    Each<Result> futures;
    for (auto& session : sessions_) {
      futures.push_back(std::async(std::launch::async, [&session, call] {
        return call(session->impl(), session->rank());
      }));
    }
    std::vector<Result> results;
    for (auto& future : futures) results.push_back(future.get());
    return results;
  }

  static absl::StatusOr<PlanInEffect> Seal(Session::Impl& impl, int rank,
                                           int64_t elements = 8) {
    auto plan =
        impl.AgreeOnPlan({{.name = "w", .shape = {elements}},
                          {.name = "pipe", .shape = {2}, .axes = {"data"}}});
    if (!plan.ok()) return plan.status();
    auto connected = impl.Connect(*std::move(plan));
    EXPECT_TRUE(!connected.ok() || connected->rank == rank);
    return connected;
  }

  // The sum of (rank + 1) over the world, by the plan's first communicator.
  static absl::StatusOr<float> SumOfRanks(PlanInEffect& plan) {
    HostStream stream;
    float value = static_cast<float>(plan.rank + 1);
    Communicator& world = *plan.executor->communicator(0);
    const absl::Status enqueued =
        world.AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, stream);
    if (!enqueued.ok()) return enqueued;
    stream.Synchronize().IgnoreError();
    if (!world.status().ok()) return world.status();
    return value;
  }

  std::vector<PlanInEffect> SealAll() {
    std::vector<PlanInEffect> plans;
    for (auto& sealed :
         OnAll([](auto&impl, int rank) { return Seal(impl, rank); })) {
      EXPECT_TRUE(sealed.ok()) << sealed.status();
      if (sealed.ok()) plans.push_back(*std::move(sealed));
    }
    return plans;
  }

  void ExpectSums(std::vector<PlanInEffect>& plans) {
    const auto sums = OnAll([&plans](auto&, int rank) {
      return SumOfRanks(plans[static_cast<size_t>(rank)]);
    });
    for (const auto& sum : sums) {
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, 1 + 2 + 3 + 4);
    }
  }

  void LeaveAll() {
    for (const auto& left :
         OnAll([](auto&impl, int) { return impl.Leave(/*clean=*/true, ""); })) {
      EXPECT_TRUE(left.ok()) << left;
    }
  }

  static constexpr int kWorld = 4;
  JobSpec spec_{.name = "job", .mesh = {{{"data", 2}, {"pipe", 2}}}};
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_SESSION_JOB_FIXTURE_H_

// StateReplicas in whole jobs on fake GPUs: the real coordinator core, NCCL's
// adapter, state in device memory and on the host.

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"
#include "tests/client/state/device_replicas.h"
#include "tests/support/fake_gpu_job.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kGpus = 4;

// "w" is in device memory, whole on all ranks; the scalar "step" and the bytes
// "vocabulary" are on the host.
class GpuRankState {
 public:
  GpuRankState(Session& session, fake::FakeGpus* gpus)
      : gpus_(*gpus), w_(*session.Allocate(kCount * sizeof(float))) {
    EXPECT_TRUE(session
                    .RegisterState({.name = "w", .shape = {300, 1000}},
                                   w_.as<float>().data())
                    .ok());
    EXPECT_TRUE(session.RegisterScalar("step", &step_).ok());
    EXPECT_TRUE(session
                    .RegisterBytes("vocabulary",
                                   {reinterpret_cast<std::byte*>(words_.data()),
                                    words_.size()})
                    .ok());
    Fill(1);
  }

  void Fill(float first) {
    float* const w = gpus_.Reach(w_.as<float>().data());
    for (size_t i = 0; i < kCount; ++i) w[i] = first + static_cast<float>(i);
    step_ = static_cast<int64_t>(16 + first);
    words_.assign(words_.size(), static_cast<char>('a' + first));  // in place
  }
  bool Is(float first) {
    const float* const w = gpus_.Reach(w_.as<float>().data());
    for (size_t i = 0; i < kCount; ++i) {
      if (w[i] != first + static_cast<float>(i)) return false;
    }
    return step_ == static_cast<int64_t>(16 + first) &&
           words_ == std::string(words_.size(), static_cast<char>('a' + first));
  }
  void Flip(size_t byte) {
    gpus_.Reach(reinterpret_cast<char*>(w_.data()))[byte] ^= 4;
  }
  void SetStep(int64_t step) { step_ = step; }
  const void* w() const { return w_.data(); }
  // The device's calls of this rank.
  state::FaultyCuda* cuda = nullptr;

 private:
  static constexpr size_t kCount = 300'000;  // more than one chunk
  fake::FakeGpus& gpus_;
  ArenaBuffer w_;
  int64_t step_ = 0;
  std::string words_ = std::string(40, ' ');
};

class ReplicasFakeGpuTest : public testing::Test {
 protected:
  using Body =
      std::function<absl::Status(Session&, GpuRankState&, StateReplicas&)>;

  ~ReplicasFakeGpuTest() override {
    EXPECT_THAT(gpus_.violations(), IsEmpty());
  }

  // Calls body on all ranks of a connected job, which leave then.
  std::vector<absl::Status> RunJob(const Body& body) {
    std::vector<std::future<absl::Status>> running;
    for (int i = 0; i < kGpus; ++i) {
      running.push_back(std::async(std::launch::async,
                                   [&, i] { return RunWorker(i, body); }));
    }
    std::vector<absl::Status> statuses;
    for (auto& each : running) statuses.push_back(each.get());
    return statuses;
  }

 private:
  absl::Status RunWorker(int number, const Body& body) {
    transport::nccl::Tables tables = job_.TablesOf(number);
    const auto cuda = std::make_shared<state::FaultyCuda>(tables.cuda);
    tables.cuda = cuda;
    auto session = job_.Join(number, tables);
    if (!session.ok()) return session.status();
    GpuRankState state(**session, &gpus_);
    state.cuda = cuda.get();
    {
      auto replicas = StateReplicas::Create(**session);
      if (!replicas.ok()) return replicas.status();
      absl::Status status = (*session)->Connect();
      if (status.ok()) status = body(**session, state, **replicas);
      if (!status.ok()) return status;
    }
    return (*session)->Leave();
  }

  FakeGpuJob job_{
      {.name = "job", .mesh = {{{"data", kGpus}}}, .transport = "nccl"}, 3};

 protected:
  fake::FakeGpus& gpus_ = job_.gpus();
};

TEST_F(ReplicasFakeGpuTest, AFlippedBitIsNamedAndTheJobGoesOn) {
  const auto statuses = RunJob(
      [](Session& session, GpuRankState& state, StateReplicas& replicas) {
        EXPECT_EQ(replicas.Check(), absl::OkStatus());
        if (session.rank() == 2) state.Flip(4 * 123'456);
        absl::Status differs = replicas.Check();
        EXPECT_TRUE(absl::IsDataLoss(differs)) << differs;
        EXPECT_THAT(std::string(differs.message()),
                    AllOf(HasSubstr("tensor \"w\" of rank 2 (elements 0 to "),
                          Not(HasSubstr("step"))));
        if (session.rank() == 2) state.Flip(4 * 123'456);
        // State of the host in the same job.
        if (session.rank() == 1) state.SetStep(5);
        differs = replicas.Check();
        EXPECT_THAT(std::string(differs.message()),
                    HasSubstr("tensor \"step\" of rank 1 "));
        if (session.rank() == 1) state.SetStep(17);
        return replicas.Check();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_F(ReplicasFakeGpuTest, ANewcomersMemoryComesBackBitForBit) {
  const auto statuses = RunJob(
      [](Session& session, GpuRankState& state, StateReplicas& replicas) {
        for (const int newcomer : {3, 0}) {
          if (session.rank() == newcomer) state.Fill(7);
          EXPECT_TRUE(absl::IsDataLoss(replicas.Check()));
          EXPECT_EQ(replicas.Recover({newcomer}), absl::OkStatus());
          EXPECT_TRUE(state.Is(1)) << "rank " << session.rank();
          EXPECT_EQ(replicas.Check(), absl::OkStatus());
        }
        EXPECT_TRUE(absl::IsInvalidArgument(
            replicas.Recover({session.rank() == 1 ? 2 : 0})));
        return replicas.Recover({});
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_F(ReplicasFakeGpuTest, ACopyThatFailsEndsTheCallOnAllRanksNotTheEpoch) {
  const auto statuses = RunJob(
      [](Session& session, GpuRankState& state, StateReplicas& replicas) {
        if (session.rank() == 1) state.cuda->Spoil(state.w(), 4);
        for (const absl::Status& failed :
             {replicas.Check(), replicas.Recover({2}), replicas.Recover({1})}) {
          EXPECT_TRUE(absl::IsInternal(failed)) << failed;
          EXPECT_THAT(std::string(failed.message()),
                      HasSubstr("tensor \"w\" of rank 1 cannot be copied"));
        }
        EXPECT_EQ(session.status(), absl::OkStatus());
        state.cuda->Spoil(nullptr, 0);
        for (const int newcomer : {2, 1}) {
          EXPECT_EQ(replicas.Recover({newcomer}), absl::OkStatus());
        }
        EXPECT_TRUE(state.Is(1)) << "rank " << session.rank();
        return replicas.Check();
      });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

}  // namespace
}  // namespace lockstep::session

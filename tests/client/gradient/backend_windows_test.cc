// In device memory, where a job wants windows: all buffers that NCCL uses in a
// step are in windows that all ranks have registered.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/transport/nccl/cuda_arena.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {
namespace {

using fake::ForwardingNccl;
using testing::Each;
using testing::IsEmpty;

// Elements, so that a half of a bucket's half still is memory from NCCL.
constexpr int64_t kLarge = 2 * transport::nccl::kNcclMemoryBytesMin;

// The transfers of all ranks.
struct Moved {
  Mutex mutex;
  int in_windows ABSL_GUARDED_BY(mutex) = 0;
  int elsewhere ABSL_GUARDED_BY(mutex) = 0;
};

// Records the addresses that each large transfer reads and writes, once its
// communicator is connected: the messages of one byte are the last that it
// warms.
class LooksWhere final : public ForwardingNccl {
 public:
  LooksWhere(std::shared_ptr<NcclApi> inner, Moved* moved)
      : ForwardingNccl(std::move(inner)), moved_(*moved) {}

  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            transport::nccl::NcclWindow* window,
                            int flags) override {
    windows_[static_cast<std::byte*>(memory)] = bytes;
    return ForwardingNccl::CommWindowRegister(comm, memory, bytes, window,
                                              flags);
  }
  Result CommWindowDeregister(Comm comm,
                              transport::nccl::NcclWindow window) override {
    windows_.erase(reinterpret_cast<std::byte*>(window));  // an address here
    return ForwardingNccl::CommWindowDeregister(comm, window);
  }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    Look(comm, {in, out}, count);
    return ForwardingNccl::AllReduce(in, out, count, dtype, op, comm, stream);
  }
  Result ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                       Op op, Comm comm, StreamHandle stream) override {
    Look(comm, {in, out}, count);
    return ForwardingNccl::ReduceScatter(in, out, count, dtype, op, comm,
                                         stream);
  }
  Result AllGather(const void* in, void* out, size_t count, DType dtype,
                   Comm comm, StreamHandle stream) override {
    Look(comm, {in, out}, count);
    return ForwardingNccl::AllGather(in, out, count, dtype, comm, stream);
  }
  Result Send(const void* buffer, size_t count, DType dtype, int peer,
              Comm comm, StreamHandle stream) override {
    warm_.insert(comm);
    Look(comm, {buffer}, count);
    return ForwardingNccl::Send(buffer, count, dtype, peer, comm, stream);
  }
  Result Recv(void* buffer, size_t count, DType dtype, int peer, Comm comm,
              StreamHandle stream) override {
    Look(comm, {buffer}, count);
    return ForwardingNccl::Recv(buffer, count, dtype, peer, comm, stream);
  }

 private:
  void Look(Comm comm, const std::vector<const void*>& places, size_t count) {
    if (count < kLarge / 4 || warm_.count(comm) == 0) return;
    MutexLock lock(&moved_.mutex);
    for (const void* place : places) {
      const auto* const at = static_cast<const std::byte*>(place);
      auto after = windows_.upper_bound(at);
      const bool inside =
          after != windows_.begin() &&
          at < std::prev(after)->first + std::prev(after)->second;
      ++(inside ? moved_.in_windows : moved_.elsewhere);
    }
  }

  Moved& moved_;
  // Used by the launch thread.
  std::map<const std::byte*, size_t> windows_;
  std::set<Comm> warm_;
};

class WindowsTest : public testing::Test {
 protected:
  ~WindowsTest() override {
    EXPECT_THAT(backend_.violations(), IsEmpty());
    MutexLock lock(&moved_.mutex);
    EXPECT_GT(moved_.in_windows, 0);
    EXPECT_EQ(moved_.elsewhere, 0);
  }

  MemoryBackend* backend() { return &backend_; }
  static std::vector<Parameter> Parameters(int count) {
    std::vector<Parameter> parameters;
    for (int p = 0; p < count; ++p) {
      parameters.push_back({.name = "p" + std::to_string(p),
                            .shape = {kLarge},
                            .op = ReduceOp::kSum});
    }
    return parameters;
  }

  static BackendJob::Options Options(std::vector<Parameter> parameters,
                                     const BucketPolicy& policy = {}) {
    return {.parameters = std::move(parameters),
            .policy = policy,
            .run_ahead = 1,
            .windows = true};
  }

  // Every rank submits gradients of ones.
  static void Step(BackendJob& job, int rank) {
    Engine& engine = job.engine(rank);
    const int parameters = static_cast<int>(job.plan().parameters.size());
    std::vector<absl::Span<std::byte>> views;
    for (int p = parameters - 1; p >= 0; --p) {
      views.push_back(*engine.View(p));
      job.Put(rank, p, std::vector<float>(kLarge, 1));
      ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
    }
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    for (const auto& view : views) {
      EXPECT_THAT(job.Get(view.data(), view.size() / sizeof(float)), Each(2));
    }
  }

 private:
  Moved moved_;
  FakeGpuBackend backend_{1, [this](int, transport::nccl::Tables* tables) {
                            tables->nccl = std::make_shared<LooksWhere>(
                                tables->nccl, &moved_);
                          }};
};

TEST_F(WindowsTest, Gradients) {
  BackendJob job(backend(), Options(Parameters(1)));
  job.Run([&](int rank, Engine&) {
    for (int step = 0; step < 4; ++step) Step(job, rank);
    EXPECT_EQ(job.engine(rank).progress().memory, "window");
  });
}

TEST_F(WindowsTest, HalvesOnTheWire) {
  BackendJob job(backend(),
                 Options(Parameters(1), {.wire_dtype = DType::kBF16}));
  job.Run([&](int rank, Engine&) { Step(job, rank); });
}

// Also for the buckets of a later revision, from its first step on.
TEST_F(WindowsTest, BucketsThatHaveMoved) {
  const BucketPolicy policy = {.first_bytes_max = kLarge,
                               .bytes_max = 4 * kLarge};
  BackendJob job(backend(), Options(Parameters(3), policy));
  const plan::Plan next = *plan::Recut(job.plan(), policy, {2, 0, 1});
  job.Run([&](int rank, Engine& engine) {
    engine.OnMoved([] {});
    for (int step = 0; step < 4; ++step) {
      if (step == 1) {
        ASSERT_EQ(engine.Stage(next), absl::OkStatus());
      }
      Step(job, rank);
    }
    EXPECT_EQ(engine.revision(), Revision{2});
  });
}

// The fixture's final check expects large transfers.
TEST_F(WindowsTest, SmallBucketsArePlainAndSaidToBe) {
  std::vector<Parameter> parameters = Parameters(2);
  parameters[0].shape = {3};
  const BucketPolicy policy = {.first_bytes_max = kLarge,
                               .bytes_max = 4 * kLarge};
  BackendJob job(backend(), Options(parameters, policy));
  job.Run([&](int rank, Engine& engine) {
    for (const int p : {1, 0}) {
      ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
    }
    ASSERT_TRUE(FinishBlocking(engine).ok());
    // There are three bucket sets.
    EXPECT_EQ(engine.progress().memory, "3 window, 3 plain") << rank;
  });
}

}  // namespace
}  // namespace lockstep::gradient

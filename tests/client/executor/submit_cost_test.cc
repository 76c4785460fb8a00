// The cost of a Submit that completes a bucket: locks and allocations of the
// calling thread, counted by replacements of pthread_mutex_lock and operator
// new. The test is a program of its own, since they replace them for a whole
// process.

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/gradient/engine_job.h"

namespace {

struct Counts {
  int locks = 0;
  int allocations = 0;
};
thread_local Counts counts;

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real =
      reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++counts.locks;
  return real(mutex);
}

// noinline: the compiler would otherwise warn that delete frees malloc's
// memory.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++counts.allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace lockstep::gradient {
namespace {

constexpr int kWarmUp = 40;  // by then, the queue's memory has grown
constexpr int kSteps = 5;

const std::vector<Registered> kParameters = {
    {{.name = "w", .shape = {1000}, .op = ReduceOp::kSum}},
    {{.name = "b", .shape = {1000}, .op = ReduceOp::kSum}},
    {{.name = "v", .shape = {1000}, .op = ReduceOp::kSum}}};

// The maximum over all Submits that complete a bucket.
Counts MostOfSubmits(Overlap overlap, bool from_buffer) {
  // A bucket for each parameter.
  EngineJob job("data=2", kParameters, {.first_bytes_max = 1, .bytes_max = 1},
                {}, Uneven::kStop, {.overlap = overlap});
  std::vector<Counts> most(2);
  job.Run([&](int rank, Engine& engine) {
    const std::vector<float> gradient(1000, 1);
    for (int step = 0; step < kWarmUp + kSteps; ++step) {
      for (int p = 2; p >= 0; --p) {
        const Counts before = counts;
        const absl::Status submitted =
            from_buffer
                ? engine.Submit(p, gradient.data(),
                                gradient.size() * sizeof(float), nullptr)
                : engine.Submit(p, nullptr, 0, nullptr);
        const Counts after = counts;
        ASSERT_EQ(submitted, absl::OkStatus());
        if (step < kWarmUp) continue;
        most[rank].locks =
            std::max(most[rank].locks, after.locks - before.locks);
        most[rank].allocations = std::max(
            most[rank].allocations, after.allocations - before.allocations);
      }
      ASSERT_TRUE(FinishAndWait(engine).ok());
    }
  });
  return {std::max(most[0].locks, most[1].locks),
          std::max(most[0].allocations, most[1].allocations)};
}

TEST(SubmitCostTest, CompletesABucketWithThreeLocksAndNoAllocation) {
  for (const Overlap overlap : {Overlap::kThread, Overlap::kInline}) {
    for (const bool from_buffer : {false, true}) {
      const Counts most = MostOfSubmits(overlap, from_buffer);
      EXPECT_GT(most.locks, 0) << "the stand-in counts nothing";
      EXPECT_LE(most.locks, 3) << from_buffer;
      EXPECT_EQ(most.allocations, 0) << from_buffer;
    }
  }
}

// The replacements count what they replace.
TEST(SubmitCostTest, CountsLocksAndAllocations) {
  const Counts before = counts;
  Mutex mutex;
  { MutexLock lock(&mutex); }
  std::vector<int>* const made = new std::vector<int>(100);
  delete made;
  EXPECT_EQ(counts.locks - before.locks, 1);
  EXPECT_EQ(counts.allocations - before.allocations, 2);
}

}  // namespace
}  // namespace lockstep::gradient

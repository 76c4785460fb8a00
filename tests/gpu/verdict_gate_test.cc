// The device's gate writes the same bits as its host reference, or none. The
// scalars are where FinishAsync stores them: in pinned host memory.

#include "kernels/device/verdict_gate.h"

#include <cuda_runtime.h>

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/verdict_gate.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

class Pinned {
 public:
  explicit Pinned(const VerdictScalars& value) {
    gpu::Require(cudaHostAlloc(reinterpret_cast<void**>(&scalars_),
                               sizeof *scalars_, cudaHostAllocMapped),
                 "cudaHostAlloc");
    *scalars_ = value;
  }
  ~Pinned() { cudaFreeHost(scalars_); }
  const VerdictScalars* get() const { return scalars_; }

 private:
  VerdictScalars* scalars_ = nullptr;
};

std::vector<VerdictScalars> Verdicts() {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  return {{.commit = 1, .finite = 1, .clip = 1.0 / 3},
          {.commit = 0, .finite = 1},
          {.commit = 1, .finite = 0},
          {.commit = kNaN, .finite = kNaN, .clip = kNaN, .samples = kNaN}};
}

// An earlier error of the caller: no launch reports or clears it.
TEST(DeviceVerdictGateTest, ALaunchIsNotJudgedByTheCallersLastError) {
  const Pinned pinned({.commit = 1, .finite = 1});
  const gpu::Memory memory(32);
  void* never = nullptr;
  ASSERT_EQ(cudaMalloc(&never, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(device::CommitCopy(pinned.get(), memory.data(), memory.data() + 16,
                               16, nullptr),
            device::kLaunched);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  gpu::Synchronize();
}

TEST(DeviceVerdictGateTest, CopiesWhatItsTwinCopies) {
  Rng rng(6);
  for (const VerdictScalars& verdict : Verdicts()) {
    const Pinned pinned(verdict);
    for (const size_t bytes : {0, 1, 15, 16, 17, 4096, 1'000'003}) {
      for (const size_t skipped : {0, 1, 16}) {
        const auto from = RandomRow<uint8_t>(rng, bytes);
        auto to = RandomRow<uint8_t>(rng, bytes + 1);
        const gpu::Row<uint8_t> update(from, skipped), state(to, skipped);
        gpu::Require(device::CommitCopy(pinned.get(), update.data(),
                                        state.data(), bytes, nullptr),
                     "CommitCopy");
        gpu::Synchronize();
        CommitCopy(&verdict, from.data(), to.data(), bytes);
        EXPECT_EQ(state.Values(), to) << bytes << " bytes";
      }
    }
  }
}

template <class T>
class DeviceCommitUnpackTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceCommitUnpackTest, FloatTypes);

TYPED_TEST(DeviceCommitUnpackTest, UnpacksWhatItsTwinUnpacks) {
  const DType dtype = DTypeOf<TypeParam>();
  Rng rng(7);
  for (const VerdictScalars& verdict : Verdicts()) {
    const Pinned pinned(verdict);
    for (const size_t slots : {1, 9, 1100}) {
      auto bucket = RandomRow<TypeParam>(rng, 20 * slots + 40'000);
      auto tensors = RandomRow<TypeParam>(rng, bucket.size());
      const gpu::Row<TypeParam> from(bucket), to(tensors);
      std::vector<TensorSlot> there, here;
      for (size_t i = 0; i < slots; ++i) {
        const size_t count = i + 1 == slots ? 40'000 : 1 + i % 19;
        there.push_back({to.data() + 20 * i, 20 * i, count});
        here.push_back({tensors.data() + 20 * i, 20 * i, count});
      }
      gpu::Require(device::CommitUnpack(pinned.get(), from.data(), there, dtype,
                                        nullptr),
                   "CommitUnpack");
      gpu::Synchronize();
      CommitUnpack(&verdict, bucket.data(), here, dtype);
      EXPECT_TRUE(SameBits(to.Values(), tensors)) << slots << " slots";
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels

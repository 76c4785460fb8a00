// Device memory, and kernels in stream order, over the fake.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_gpu.h"

namespace lockstep {
namespace {

using fake::FakeGpus;
using kernels::TensorSlot;
using testing::ElementsAre;
using testing::IsEmpty;
using transport::nccl::CudaResult;
using transport::nccl::CudaStream;
using transport::nccl::MakeCudaArena;
using transport::nccl::Tables;

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() : tables_(gpus_.TablesOf(0)) {
    arena_ = MakeCudaArena(tables_.nccl, tables_.cuda);
    auto made = CudaStream::Create(tables_.cuda.get());
    EXPECT_TRUE(made.ok()) << made.status();
    stream_ = *std::move(made);
  }
  ~KernelsTest() override { EXPECT_THAT(gpus_.violations(), IsEmpty()); }

  ArenaBuffer Allocate(size_t bytes) {
    auto buffer = arena_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }
  transport::nccl::CudaStreamHandle handle() { return stream_->handle(); }
  std::vector<float> Floats(const ArenaBuffer& buffer) {
    EXPECT_TRUE(stream_->Synchronize().ok());
    const float* at = gpus_.Reach(buffer.as<float>().data());
    return {at, at + buffer.bytes() / sizeof(float)};
  }
  // A kernel that writes `values` to `buffer`.
  void Fill(const ArenaBuffer& buffer, std::vector<float> values) {
    float* const at = gpus_.Reach(buffer.as<float>().data());
    gpus_.LaunchKernel(handle(), [at, values] {
      std::copy(values.begin(), values.end(), at);
    });
  }

  FakeGpus gpus_;
  const Tables tables_;
  const transport::nccl::DeviceScope scope_{*tables_.cuda};
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<CudaStream> stream_;
};

TEST_F(KernelsTest, AnArenaGivesZeroedMemoryOfTheDevice) {
  EXPECT_TRUE(absl::IsInvalidArgument(arena_->Allocate(0).status()));
  const ArenaBuffer buffer = Allocate(12);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Arena::kAlignment, 0u);
  EXPECT_THAT(Floats(buffer), ElementsAre(0, 0, 0));
}

TEST_F(KernelsTest, TheHostCannotTouchADevicesMemory) {
  const ArenaBuffer buffer = Allocate(4);
  EXPECT_DEATH(*buffer.as<volatile float>().data() = 1, "");
}

// The caller may free a list when the call has returned; a kernel reads the
// memory as it is when the stream reaches it.
TEST_F(KernelsTest, RunInTheOrderOfTheirStreamOnListsOfTheirOwn) {
  const ArenaBuffer tensor = Allocate(8);
  const ArenaBuffer bucket = Allocate(16);
  {
    std::vector<TensorSlot> slots = {{tensor.data(), 1, 2}};
    ASSERT_EQ(
        tables_.kernels->ZeroSlots(bucket.data(), slots, DType::kF32, handle()),
        CudaResult::kSuccess);
    Fill(tensor, {2, 3});
    tables_.kernels->PackScaled(slots, DType::kF32, 0.5, bucket.data(),
                                handle());
    std::vector<uint8_t> on = {1};
    tables_.kernels->WriteFlags(on, DType::kF32, bucket.data() + 12, handle());
    slots[0] = {};
    on[0] = 0;
  }
  EXPECT_THAT(Floats(bucket), ElementsAre(0, 1, 1.5, 1));
}

TEST_F(KernelsTest, BoxesAreCopiedFilledAndSummedFromListsOfTheirOwn) {
  const ArenaBuffer in = Allocate(12);
  const ArenaBuffer out = Allocate(16);
  {
    std::vector<kernels::StridedBox> reversed = {{.dims = 1,
                                                  .in_offset = 8,
                                                  .counts = {3},
                                                  .in_strides = {-1},
                                                  .out_strides = {1}}};
    std::vector<kernels::StridedBox> sum = {
        {.dims = 1, .counts = {3}, .in_strides = {1}}};
    std::vector<kernels::BoxFill> fill = {{.out_offset = 12}};
    fill[0].value[3] = std::byte{0x40};  // 2 as f32
    std::vector<const void*> from = {in.data()};
    std::vector<void*> to = {out.data()};
    tables_.kernels->CopyBoxes(reversed, from, to, handle());
    Fill(in, {1, 2, 3});
    tables_.kernels->CopyBoxes(reversed, from, to, handle());
    tables_.kernels->FillBoxes(fill, to, handle());
    tables_.kernels->SumBoxes(sum, from, to, true, handle());
    reversed[0] = sum[0] = {};
    fill[0] = {};
    from[0] = to[0] = nullptr;
  }
  EXPECT_THAT(Floats(out), ElementsAre(9, 2, 1, 2));
}

TEST_F(KernelsTest, AFiniteCheckAddsUpInTheDevicesMemory) {
  const ArenaBuffer data = Allocate(16);
  const ArenaBuffer total = Allocate(sizeof(kernels::FiniteCheck));
  const kernels::ElementRange ranges[] = {{0, 2}, {3, 1}};
  const ArenaBuffer scratch = Allocate(FiniteCheckScratchBytes(ranges));
  Fill(data, {3, 4, 100, std::numeric_limits<float>::infinity()});
  auto* const there = total.as<kernels::FiniteCheck>().data();
  for (int i = 0; i < 2; ++i) {
    tables_.kernels->AddFiniteCheck(data.data(), DType::kF32, ranges, 1,
                                    scratch.data(), there, handle());
  }
  kernels::FiniteCheck got;
  tables_.cuda->MemcpyAsync(&got, there, sizeof got, handle());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(got.sum_of_squares, 50);
  EXPECT_EQ(got.non_finite, 2u);
}

TEST_F(KernelsTest, ASumIsScaledAndCheckedInOneLaunch) {
  const ArenaBuffer data = Allocate(20);
  const ArenaBuffer total = Allocate(sizeof(kernels::FiniteCheck));
  std::vector<kernels::ElementRange> ranges = {{1, 2}, {4, 1}};
  const ArenaBuffer scratch = Allocate(FiniteCheckScratchBytes(ranges));
  Fill(data, {2, 6, 8, 10, std::numeric_limits<float>::infinity()});
  auto* const there = total.as<kernels::FiniteCheck>().data();
  tables_.kernels->ScaleAndCheck(data.data(), DType::kF32, 0.5, {0, 5}, ranges,
                                 scratch.data(), there, handle());
  ranges.clear();
  kernels::FiniteCheck got;
  tables_.cuda->MemcpyAsync(&got, there, sizeof got, handle());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(got.sum_of_squares, 3 * 3 + 4 * 4);
  EXPECT_EQ(got.non_finite, 1u);
  EXPECT_THAT(Floats(data), ElementsAre(1, 3, 4, 5, testing::_));
}

// An update enqueued before the verdict is known.
TEST_F(KernelsTest, AnUpdateBehindAVerdictAsksItWhenItRuns) {
  const ArenaBuffer update = Allocate(8);
  const ArenaBuffer state = Allocate(8);
  for (const bool commits : {false, true}) {
    void* pinned = nullptr;
    tables_.cuda->HostAlloc(&pinned, sizeof(VerdictScalars));
    auto* const verdict = static_cast<VerdictScalars*>(pinned);
    Fill(update, {5, 6});
    gpus_.LaunchKernel(handle(), [=] {
      *verdict = {.commit = commits ? 1.0 : 0.0, .finite = 1};
    });
    tables_.kernels->CommitCopy(verdict, update.data(), state.data(), 8,
                                handle());
    if (commits) {
      EXPECT_THAT(Floats(state), ElementsAre(5, 6));
    } else {
      EXPECT_THAT(Floats(state), ElementsAre(0, 0));
    }
    tables_.cuda->FreeHost(pinned);
  }
}

}  // namespace
}  // namespace lockstep

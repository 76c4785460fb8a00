// Runs the conformance suite on the real adapter on a real GPU, with one rank;
// processes_test.cc has several ranks.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/gpu.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/gpu/device.h"
#include "tests/gpu/nccl/pinned_heap.h"

namespace lockstep {
namespace {

using transport::nccl::CudaStream;
using transport::nccl::Tables;

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// Set by main, before any test.
const Tables* tables = nullptr;

void Run(void* work) {
  const std::unique_ptr<std::function<void()>> owned(
      static_cast<std::function<void()>*>(work));
  (*owned)();
}

class GpuWorld final : public conformance::World {
 public:
  GpuWorld() {
    auto made = transport::nccl::MakeTransport(*tables);
    EXPECT_TRUE(made.ok()) << made.status();
    transport_ = *std::move(made);
  }

  transport::Transport& at(int) override { return *transport_; }
  std::unique_ptr<Stream> MakeStream(int, const std::string&) override {
    auto stream = CudaStream::Create(tables->cuda.get());
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }
  void Enqueue(Stream& stream, std::function<void()> work) override {
    const auto handle = static_cast<CudaStream&>(stream).handle();
    tables->cuda->LaunchHostFunc(handle, &Run,
                                 new std::function<void()>(std::move(work)));
  }

 private:
  std::unique_ptr<transport::Transport> transport_;
};

INSTANTIATE_TEST_SUITE_P(Gpu, CommunicatorConformance,
                         testing::Values(conformance::Case{
                             [] { return std::make_unique<GpuWorld>(); },
                             1,
                             {.rank_order = false,
                              .sums_in_pairs = false,
                              .notices_disagreement = false,
                              .notices_who_goes = false,
                              .any_order_between_groups = false}}),
                         conformance::CaseName);

}  // namespace

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const auto loaded = transport::nccl::LoadTables(Environment, 0);
  if (!loaded.ok()) {
    std::printf("skipped: %s\n",
                std::string(loaded.status().message()).c_str());
    return absl::IsFailedPrecondition(loaded.status()) ? 77 : 1;
  }
  tables = &*loaded;
  gpu::OpenPinnedHeap();
  return RUN_ALL_TESTS();
}

}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }

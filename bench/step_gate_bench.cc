// What the step gate adds to a step on the device: this rank's record and the
// decision over all ranks' records. The all-gather between them is not
// included: the records lie in device memory.
//
//   ranks   enqueued us   in a graph us   host sees us
//
//   enqueued     from one step's gate to the next one's, in a stream
//   in a graph   the same, one graph launch for each step, back to back
//   host sees    from the launch until the host has the journal's entry
//
// Up to 256 ranks are one tile, decided by one kernel; more are verified in
// tiles by a kernel before it. 512 ranks are the fewest whole tiles.
//
// Medians of rounds; exit code 77 without a GPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/device/step_gate.h"
#include "tests/gpu/device.h"

namespace lockstep::kernels {
namespace {

constexpr int kRounds = 15;
constexpr int kSteps = 200;  // in a round
constexpr int kDepth = 4;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

void Zero(void* memory, size_t bytes) {
  gpu::Require(cudaMemset(memory, 0, bytes), "cudaMemset");
}

// One rank. The records are not valid, which costs the same.
class Rank {
 public:
  explicit Rank(int world)
      : control_(sizeof(StepControl)),
        norm_(sizeof(FiniteCheck)),
        records_(world * sizeof(StepRecord)),
        scalars_(sizeof(VerdictScalars)),
        tiles_(TilesOf(world) * sizeof(TileSummary)) {
    const size_t inputs = kDepth * sizeof(StepRecord);
    const size_t bytes = inputs + kDepth * StepEntryBytes(world) + 64;
    gpu::Require(cudaHostAlloc(&pinned_, bytes, cudaHostAllocMapped),
                 "cudaHostAlloc");
    std::memset(pinned_, 0, bytes);
    Zero(control_.data(), sizeof(StepControl));
    Zero(norm_.data(), sizeof(FiniteCheck));
    auto* const at = static_cast<std::byte*>(pinned_);
    context_ = {.epoch = 1,
                .revision = 1,
                .world = world,
                .depth = kDepth,
                .control = reinterpret_cast<StepControl*>(control_.data()),
                .stop = reinterpret_cast<uint32_t*>(at),
                .inputs = reinterpret_cast<StepRecord*>(at + 64),
                .journal = at + 64 + inputs,
                .tiles = reinterpret_cast<TileSummary*>(tiles_.data())};
    gpu::Require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreate");
    Capture();
  }
  ~Rank() {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(graph_);
    cudaStreamDestroy(stream_);
    cudaFreeHost(pinned_);
  }

  // Microseconds of a step of `enqueue`, on the device.
  double DeviceTime(const std::function<void()>& enqueue) {
    cudaEvent_t begin, end;
    gpu::Require(cudaEventCreate(&begin), "cudaEventCreate");
    gpu::Require(cudaEventCreate(&end), "cudaEventCreate");
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      gpu::Require(cudaEventRecord(begin, stream_), "cudaEventRecord");
      for (int step = 0; step < kSteps; ++step) enqueue();
      gpu::Require(cudaEventRecord(end, stream_), "cudaEventRecord");
      gpu::Require(cudaEventSynchronize(end), "cudaEventSynchronize");
      float milliseconds = 0;
      gpu::Require(cudaEventElapsedTime(&milliseconds, begin, end),
                   "cudaEventElapsedTime");
      times.push_back(milliseconds * 1e3 / kSteps);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return Median(times);
  }

  double HostTime() {
    std::vector<double> times;
    for (int step = 0; step < kSteps; ++step) {
      gpu::Require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      const uint64_t sequence = Sequence();
      const auto begun = std::chrono::steady_clock::now();
      Launch();
      while (FindStepEntry(context_, sequence) == nullptr) {
      }
      times.push_back(std::chrono::duration<double, std::micro>(
                          std::chrono::steady_clock::now() - begun)
                          .count());
    }
    return Median(times);
  }

  void Enqueue() {
    auto* const records = reinterpret_cast<StepRecord*>(records_.data());
    gpu::Require(device::WriteStepRecord(
                     context_, reinterpret_cast<FiniteCheck*>(norm_.data()),
                     records, stream_),
                 "WriteStepRecord");
    if (HasTiles(context_.world)) {
      gpu::Require(device::VerifyTiles(context_, records, stream_),
                   "VerifyTiles");
    }
    gpu::Require(
        device::GateStep(context_, records, records,
                         reinterpret_cast<VerdictScalars*>(scalars_.data()),
                         stream_),
        "GateStep");
  }
  void Launch() {
    gpu::Require(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
  }

 private:
  uint64_t Sequence() {
    StepControl control;
    control_.Read(&control, sizeof control);
    return control.sequence;
  }
  void Capture() {
    cudaGraph_t graph;
    gpu::Require(
        cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
    Enqueue();
    gpu::Require(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    gpu::Require(cudaGraphInstantiate(&graph_, graph, 0),
                 "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
  }

  gpu::Memory control_, norm_, records_, scalars_, tiles_;
  void* pinned_ = nullptr;
  GateContext context_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

int Main() {
  if (const std::string why = gpu::WhyNoGpu(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  std::printf("%7s %14s %16s %14s\n", "ranks", "enqueued us", "in a graph us",
              "host sees us");
  for (const int world : {1, 8, 64, 256, 512, 1024, 4096}) {
    Rank rank(world);
    rank.DeviceTime([&] { rank.Enqueue(); });  // warm
    const double enqueued = rank.DeviceTime([&] { rank.Enqueue(); });
    const double graph = rank.DeviceTime([&] { rank.Launch(); });
    std::printf("%7d %14.2f %16.2f %14.2f\n", world, enqueued, graph,
                rank.HostTime());
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::kernels

int main() { return lockstep::kernels::Main(); }

#include "tests/support/fake_gpu.h"

#include <utility>

#include "tests/support/fake_cuda.h"
#include "tests/support/fake_nccl.h"

namespace lockstep::fake {

using transport::nccl::CudaStreamHandle;
using transport::nccl::Tables;

// Communicators warm up over them: beyond the fake's small all-reduce.
constexpr size_t kRowsBytes = 128 << 10;

struct FakeGpus::World {
  explicit World(const GpuOptions& options)
      : options(options),
        scheduler(options.seed, options.mean),
        fabric(&scheduler, options.polls_max, options.residents_max) {}
  ~World() { scheduler.JoinThreads(); }  // the threads use the tables

  const GpuOptions options;
  mutable Scheduler scheduler;
  Fabric fabric;
  std::vector<Tables> made;  // queued work uses them until it has run
};

FakeGpus::FakeGpus(const GpuOptions& options)
    : world_(std::make_unique<World>(options)) {}

FakeGpus::~FakeGpus() = default;

Tables FakeGpus::TablesOf(int device) {
  World& world = *world_;
  const GpuOptions& options = world.options;
  MutexLock lock(&world.scheduler.mutex());
  world.made.push_back(
      {MakeFakeNccl(&world.fabric, device, options.nccl_version),
       MakeFakeCuda(&world.scheduler, device, options.cuda_driver,
                    options.cuda_runtime, options.devices),
       MakeFakeKernels(&world.scheduler, device), kRowsBytes});
  return world.made.back();
}

const void* FakeGpus::Find(const void* address) const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.memory().Reach(address);
}

void FakeGpus::LaunchKernel(CudaStreamHandle stream,
                            std::function<void()> kernel) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.Push(StreamOf(stream), [kernel = std::move(kernel)] {
    kernel();
    return true;
  });
}

void FakeGpus::StallUntil(CudaStreamHandle stream, std::function<bool()> open) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.Push(StreamOf(stream), std::move(open));
}

void FakeGpus::BreakNetworkOf(int device) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->fabric.device(device).network_broken = true;
}

void FakeGpus::BreakDevice(int device) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.Break(device, transport::nccl::CudaResult::kIllegalAddress);
}

void FakeGpus::BreakDeviceAtQuery(int device, int queries) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.BreakAtQuery(device, queries);
}

void FakeGpus::InvalidateCaptureAt(int device, int calls) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.InvalidateCaptureAt(device, calls);
}

int FakeGpus::CaptureCallsLeft(int device) {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.CaptureCallsLeft(device);
}

void FakeGpus::BeginForeignCapture() {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.BeginForeignCapture();
}

bool FakeGpus::EndForeignCapture() {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.EndForeignCapture();
}

FakeThread FakeGpus::CallingThread() const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.thread();
}

void FakeGpus::SetCallingThread(const FakeThread& thread) {
  MutexLock lock(&world_->scheduler.mutex());
  world_->scheduler.thread() = thread;
}

std::vector<std::string> FakeGpus::violations() const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.violations();
}

std::vector<int> FakeGpus::AbortsOf(int device) const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->fabric.device(device).aborts;
}

std::vector<int> FakeGpus::ChannelsOf(int device) const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->fabric.device(device).channels;
}

int FakeGpus::FullCallsOf(int device) const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->scheduler.full_calls(device);
}

void FakeGpus::ForgetOrders() {
  MutexLock lock(&world_->scheduler.mutex());
  world_->fabric.ForgetOrders();
}

int FakeGpus::FirstUsesOf(int device) const {
  MutexLock lock(&world_->scheduler.mutex());
  return world_->fabric.device(device).first_uses;
}

}  // namespace lockstep::fake

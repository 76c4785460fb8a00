// A fake GPU for each process.

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAKE_WORLD_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAKE_WORLD_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/nccl.h"
#include "gtest/gtest.h"
#include "tests/conformance/world.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::fake {

class FakeGpuWorld final : public conformance::World {
 public:
  // `decorate` may wrap the tables of a rank.
  using Decorate = std::function<void(int rank, transport::nccl::Tables*)>;

  explicit FakeGpuWorld(const GpuOptions& options = {}, Decorate decorate = {})
      : gpus_(options), decorate_(std::move(decorate)) {}

  transport::Transport& at(int rank) override { return *Of(rank).transport; }

  std::unique_ptr<Stream> MakeStream(int rank, const std::string&) override {
    auto stream =
        transport::nccl::CudaStream::Create(Of(rank).tables.cuda.get());
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  void Enqueue(Stream& stream, std::function<void()> work) override {
    gpus_.LaunchKernel(
        static_cast<transport::nccl::CudaStream&>(stream).handle(),
        std::move(work));
  }

  FakeGpus& gpus() { return gpus_; }
  // Ends all transports, and waits until NCCL has freed their communicators.
  void End() {
    MutexLock lock(&mutex_);
    processes_.clear();
  }
  transport::nccl::Tables TablesOf(int rank) { return Of(rank).tables; }

 private:
  struct Process {
    transport::nccl::Tables tables;
    std::unique_ptr<transport::Transport> transport;
  };

  Process& Of(int rank) {
    MutexLock lock(&mutex_);
    Process& process = processes_[rank];
    if (process.transport == nullptr) {
      process.tables = gpus_.TablesOf(rank);
      if (decorate_) decorate_(rank, &process.tables);
      auto made = transport::nccl::MakeTransport(process.tables);
      EXPECT_TRUE(made.ok()) << made.status();
      process.transport = *std::move(made);
    }
    return process;
  }

  FakeGpus gpus_;
  const Decorate decorate_;
  Mutex mutex_;
  std::map<int, Process> processes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_NCCL_FAKE_WORLD_H_

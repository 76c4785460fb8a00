// The memory of a job's gradients: host memory, moved by the in-process
// transport, or fake GPUs, moved by NCCL. The engine's contract holds on both.
//
// Threads: as for the world.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_MEMORY_BACKEND_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_MEMORY_BACKEND_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/transport/nccl/fake_world.h"
#include "tests/conformance/world.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::gradient {

class MemoryBackend {
 public:
  virtual ~MemoryBackend() = default;
  virtual conformance::World& world() = 0;
  // The host address of `at`. Use it while no stream has work, or in a kernel
  // of the test.
  virtual std::byte* Reach(std::byte* at) = 0;
  // Violations of the backend's rules, described.
  virtual std::vector<std::string> violations() = 0;
};

class HostMemoryBackend final : public MemoryBackend {
 public:
  conformance::World& world() override { return world_; }
  std::byte* Reach(std::byte* at) override { return at; }
  std::vector<std::string> violations() override { return {}; }

 private:
  class World final : public conformance::World {
   public:
    transport::Transport& at(int) override { return *transport_; }

   private:
    transport::InprocHub hub_;
    const std::unique_ptr<transport::Transport> transport_ =
        transport::MakeInprocTransport(&hub_);
  };
  World world_;
};

class FakeGpuBackend final : public MemoryBackend {
 public:
  explicit FakeGpuBackend(uint64_t seed = 1,
                          fake::FakeGpuWorld::Decorate decorate = {})
      : world_({.seed = seed}, std::move(decorate)) {}

  conformance::World& world() override { return world_; }
  fake::FakeGpus& gpus() { return world_.gpus(); }
  std::byte* Reach(std::byte* at) override { return world_.gpus().Reach(at); }
  std::vector<std::string> violations() override {
    return world_.gpus().violations();
  }

 private:
  fake::FakeGpuWorld world_;
};

struct BackendKind {
  const char* name;
  std::unique_ptr<MemoryBackend> (*make)(uint64_t seed);
};

inline const BackendKind kHost = {
    "Host", [](uint64_t) -> std::unique_ptr<MemoryBackend> {
      return std::make_unique<HostMemoryBackend>();
    }};
inline const BackendKind kFakeGpus = {
    "FakeGpus", [](uint64_t seed) -> std::unique_ptr<MemoryBackend> {
      return std::make_unique<FakeGpuBackend>(seed);
    }};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_MEMORY_BACKEND_H_

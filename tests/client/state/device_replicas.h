// The state of all ranks of a job, on fake GPUs: the even tensors in device
// memory, the odd ones on the host.

#ifndef LOCKSTEP_TESTS_CLIENT_STATE_DEVICE_REPLICAS_H_
#define LOCKSTEP_TESTS_CLIENT_STATE_DEVICE_REPLICAS_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/state/wire_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/replicated_state.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::state {

// The device's calls of one rank, of which a test makes some fail.
class FaultyCuda final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;

  Result MemcpyAsync(void* to, const void* from, size_t bytes,
                     StreamHandle stream) override {
    if (Has(to) || Has(from)) return kInvalidValue;
    if (slow_ != nullptr) {
      slow_->StallUntil(stream, [left = 30]() mutable { return --left < 0; });
    }
    return ForwardingCuda::MemcpyAsync(to, from, bytes, stream);
  }
  Result HostAlloc(void** memory, size_t bytes) override {
    if (refuses_host_memory) return Result::kMemoryAllocation;
    host_bytes += bytes;
    return ForwardingCuda::HostAlloc(memory, bytes);
  }

  // Copies of this memory fail.
  void Spoil(const void* memory, size_t bytes) {
    spoiled_ = static_cast<const char*>(memory);
    spoiled_bytes_ = bytes;
  }
  static constexpr Result kInvalidValue{1};  // CUDA's
  // Other streams run while a copy waits for its turn.
  void SlowCopies(fake::FakeGpus* gpus) { slow_ = gpus; }
  bool refuses_host_memory = false;
  size_t host_bytes = 0;  // allocated

 private:
  bool Has(const void* at) const {
    return at >= spoiled_ && at < spoiled_ + spoiled_bytes_;
  }
  fake::FakeGpus* slow_ = nullptr;
  const char* spoiled_ = nullptr;
  size_t spoiled_bytes_ = 0;
};

// Counts messages of more than one word.
class CountingNccl final : public fake::ForwardingNccl {
 public:
  CountingNccl(std::shared_ptr<NcclApi> inner, std::atomic<int>* sent)
      : ForwardingNccl(std::move(inner)), sent_(*sent) {}

  Result Send(const void* buffer, size_t count, DType dtype, int peer,
              Comm comm, StreamHandle stream) override {
    if (count > sizeof(uint64_t)) ++sent_;
    return ForwardingNccl::Send(buffer, count, dtype, peer, comm, stream);
  }

 private:
  std::atomic<int>& sent_;
};

class DeviceReplicas {
 public:
  DeviceReplicas(const ReplicatedState& state, uint64_t seed)
      : world_({.seed = seed}, [this](int, transport::nccl::Tables* tables) {
          auto cuda = std::make_shared<FaultyCuda>(tables->cuda);
          cuda_.push_back(cuda);
          tables->cuda = std::move(cuda);
          tables->nccl = std::make_shared<CountingNccl>(tables->nccl, &sent_);
        }) {
    const int size = static_cast<int>(state.mesh().WorldSize());
    comms_ = conformance::Connect(world_, size, "state");
    for (int rank = 0; rank < size; ++rank) {
      Rank& made = ranks_.emplace_back();
      made.arena = world_.at(rank).MakeArena();
      made.device = *world_.at(rank).MakeDeviceContext();
      made.stream = world_.MakeStream(rank, "state");
      for (size_t t = 0; t < state.tensors().size(); ++t) {
        const std::string bytes = state.ContentsOf(state.tensors()[t], rank);
        made.host.push_back(bytes);
        auto buffer = made.arena->Allocate(bytes.size() + 1);
        EXPECT_TRUE(buffer.ok()) << buffer.status();
        made.buffers.push_back(*std::move(buffer));
        Write(rank, t, bytes);
      }
    }
  }
  ~DeviceReplicas() {
    comms_.clear();
    ranks_.clear();
    EXPECT_THAT(world_.gpus().violations(), testing::IsEmpty());
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  Communicator& comm(int rank) { return *comms_[rank]; }
  Stream& stream(int rank) { return *ranks_[rank].stream; }
  FaultyCuda& cuda(int rank) { return *cuda_[rank]; }
  fake::FakeGpus& gpus() { return world_.gpus(); }
  // Chunks that any rank has sent.
  int sent() const { return sent_; }
  WireMemory wire(int rank) {
    Rank& of = ranks_[rank];
    return {of.device,
            [&of](size_t bytes) { return of.arena->Allocate(bytes); }};
  }

  // nullptr where the rank holds nothing.
  template <typename Pointer>
  std::vector<Pointer> MemoryOf(int rank) {
    std::vector<Pointer> pointers;
    for (size_t t = 0; t < ranks_[rank].host.size(); ++t) {
      pointers.push_back(ranks_[rank].host[t].empty() ? nullptr : At(rank, t));
    }
    return pointers;
  }
  size_t BytesOf(int rank, size_t tensor) const {
    return ranks_[rank].host[tensor].size();
  }

  // While no stream has work.
  std::string Read(int rank, size_t tensor) {
    const char* const at = world_.gpus().Reach(At(rank, tensor));
    return {at, BytesOf(rank, tensor)};
  }
  void Write(int rank, size_t tensor, const std::string& bytes) {
    std::memcpy(world_.gpus().Reach(At(rank, tensor)), bytes.data(),
                bytes.size());
  }
  void Flip(int rank, size_t tensor, size_t byte) {
    std::string bytes = Read(rank, tensor);
    bytes[byte] = static_cast<char>(bytes[byte] ^ 1);
    Write(rank, tensor, bytes);
  }
  void Forget(int rank) {
    for (size_t t = 0; t < ranks_[rank].host.size(); ++t) {
      Write(rank, t, std::string(BytesOf(rank, t), '?'));
    }
  }

  // What body(rank) returns, called for all ranks at the same time.
  std::vector<absl::Status> OnEach(
      const std::function<absl::Status(int rank)>& body) {
    std::vector<absl::Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  struct Rank {
    std::unique_ptr<Arena> arena;
    std::shared_ptr<transport::DeviceContext> device;
    std::vector<ArenaBuffer> buffers;
    std::vector<std::string> host;
    std::unique_ptr<Stream> stream;
  };

  char* At(int rank, size_t tensor) {
    Rank& of = ranks_[rank];
    return tensor % 2 == 0 ? of.buffers[tensor].as<char>().data()
                           : of.host[tensor].data();
  }

  std::atomic<int> sent_ = 0;
  std::vector<std::shared_ptr<FaultyCuda>> cuda_;  // by rank
  fake::FakeGpuWorld world_;
  std::deque<Rank> ranks_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_TESTS_CLIENT_STATE_DEVICE_REPLICAS_H_

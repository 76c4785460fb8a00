#include "client/transport/nccl/cuda_arena.h"

#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

class CudaArena final : public Arena {
 public:
  explicit CudaArena(std::shared_ptr<CudaApi> cuda) : cuda_(std::move(cuda)) {}

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    if (bytes == 0) {
      return absl::InvalidArgumentError("an arena buffer of 0 bytes");
    }
    void* memory = nullptr;
    absl::Status done = Check(*cuda_, cuda_->Malloc(&memory, bytes), "Malloc");
    if (!done.ok()) return done;
    const std::shared_ptr<void> owner(
        memory, [cuda = cuda_](void* owned) { cuda->Free(owned); });
    if (done = Zero(memory, bytes); !done.ok()) return done;
    return ArenaBuffer(memory, bytes, owner);
  }

 private:
  absl::Status Zero(void* memory, size_t bytes) {
    const auto stream = CudaStream::Create(cuda_.get());
    if (!stream.ok()) return stream.status();
    const auto handle = (*stream)->Ready();
    if (!handle.ok()) return handle.status();
    absl::Status zeroed = Check(
        *cuda_, cuda_->MemsetAsync(memory, 0, bytes, *handle), "MemsetAsync");
    zeroed.Update((*stream)->Synchronize());
    return zeroed;
  }

  const std::shared_ptr<CudaApi> cuda_;
};

}  // namespace

std::unique_ptr<Arena> MakeCudaArena(std::shared_ptr<CudaApi> cuda) {
  return std::make_unique<CudaArena>(std::move(cuda));
}

}  // namespace lockstep::transport::nccl

#include "client/transport/nccl/cuda_arena.h"

#include <utility>

#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

class CudaArena final : public Arena {
 public:
  CudaArena(std::shared_ptr<NcclApi> nccl, std::shared_ptr<CudaApi> cuda)
      : nccl_(std::move(nccl)), cuda_(std::move(cuda)) {}

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    if (bytes == 0) {
      return absl::InvalidArgumentError("an arena buffer of 0 bytes");
    }
    const DeviceScope scope(*cuda_);  // NCCL allocates on the thread's device
    const auto stream = CudaStream::Create(cuda_.get());
    if (!stream.ok()) return stream.status();
    const auto owner =
        bytes >= kNcclMemoryBytesMin && nccl_->Has(NcclPart::kMemory)
            ? OfNccl(bytes)
            : OfCuda(bytes);
    if (!owner.ok()) return owner.status();
    absl::Status zeroed = Zero(owner->get(), bytes, **stream);
    if (!zeroed.ok()) return zeroed;
    return ArenaBuffer(owner->get(), bytes, *owner);
  }

 private:
  absl::StatusOr<std::shared_ptr<void>> OfCuda(size_t bytes) {
    void* memory = nullptr;
    absl::Status got = Check(*cuda_, cuda_->Malloc(&memory, bytes), "Malloc");
    if (!got.ok()) return got;
    return std::shared_ptr<void>(memory, [cuda = cuda_](void* owned) {
      const DeviceScope scope(*cuda);
      (void)Check(*cuda, cuda->Free(owned), "Free");
    });
  }

  // NCCL gives no reason for the failure; usually it is out of memory.
  absl::StatusOr<std::shared_ptr<void>> OfNccl(size_t bytes) {
    void* memory = nullptr;
    const absl::Status got =
        Check(*nccl_, nccl_->MemAlloc(&memory, bytes), "MemAlloc");
    if (!got.ok()) return absl::ResourceExhaustedError(got.message());
    return std::shared_ptr<void>(memory,
                                 [nccl = nccl_, cuda = cuda_](void* owned) {
                                   const DeviceScope scope(*cuda);
                                   nccl->MemFree(owned);
                                 });
  }

  absl::Status Zero(void* memory, size_t bytes, CudaStream& stream) {
    absl::Status zeroed =
        Check(*cuda_, cuda_->MemsetAsync(memory, 0, bytes, stream.handle()),
              "MemsetAsync");
    zeroed.Update(stream.Synchronize());
    return zeroed;
  }

  const std::shared_ptr<NcclApi> nccl_;
  const std::shared_ptr<CudaApi> cuda_;
};

}  // namespace

std::unique_ptr<Arena> MakeCudaArena(std::shared_ptr<NcclApi> nccl,
                                     std::shared_ptr<CudaApi> cuda) {
  return std::make_unique<CudaArena>(std::move(nccl), std::move(cuda));
}

}  // namespace lockstep::transport::nccl

// Buffers of an operation, and their copies on the host.
//
//   host     [buffer]                          one memory for both
//   device   [buffer] ◀─Give─ [host's copy]    pinned; the host fills and
//                     ─Take─▶                  checks it
//
// Threads: one.

#ifndef LOCKSTEP_TOOLS_PERF_MEMORY_H_
#define LOCKSTEP_TOOLS_PERF_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"

namespace lockstep::perf {

class Memory {
 public:
  class Buffer {
   public:
    Buffer() = default;
    Buffer(ArenaBuffer memory, ArenaBuffer copy)
        : memory_(std::move(memory)), copy_(std::move(copy)) {}

    size_t bytes() const { return memory_.bytes(); }
    // The memory that the operation uses.
    std::byte* data() const { return memory_.data(); }
    // The memory that the host reads and writes.
    std::byte* seen() const { return copied() ? copy_.data() : data(); }
    bool copied() const { return copy_.bytes() > 0; }

   private:
    ArenaBuffer memory_;
    ArenaBuffer copy_;
  };

  // `device` null: the arena's memory is host memory.
  Memory(Arena* arena, transport::DeviceContext* device)
      : arena_(*arena), device_(device) {}

  Arena& arena() const { return arena_; }
  transport::DeviceContext* device() const { return device_; }  // or null

  absl::StatusOr<Buffer> Allocate(size_t bytes) {
    absl::StatusOr<ArenaBuffer> memory = arena_.Allocate(bytes);
    if (!memory.ok()) return memory.status();
    if (device_ == nullptr) return Buffer(*std::move(memory), {});
    absl::StatusOr<ArenaBuffer> copy = device_->AllocateStaging(bytes);
    if (!copy.ok()) return copy.status();
    return Buffer(*std::move(memory), *std::move(copy));
  }

  // Both block until the copy is done; no effect where there is one memory.
  absl::Status Give(const Buffer& buffer) {
    return Copy(buffer, buffer.seen(), buffer.data());
  }
  absl::Status Take(const Buffer& buffer) {
    return Copy(buffer, buffer.data(), buffer.seen());
  }

 private:
  absl::Status Copy(const Buffer& buffer, const void* from, void* to) {
    if (!buffer.copied()) return absl::OkStatus();
    return device_->Perform(
        nullptr, [&](transport::DeviceContext::KernelQueue& kernel_queue) {
          kernel_queue.Copy(from, to, buffer.bytes());
          return kernel_queue.status().ok() ? kernel_queue.Done().Wait()
                                            : kernel_queue.status();
        });
  }

  Arena& arena_;
  transport::DeviceContext* const device_;
};

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_MEMORY_H_

// Where an operation's buffers are, and where the host sees what is in them.
//
//   host     [buffer]                          one memory for both
//   device   [buffer] ◀─Give─ [host's copy]    pinned; filled and judged there
//                     ─Take─▶
//
// Threads: one.

#ifndef LOCKSTEP_TOOLS_PERF_MEMORY_H_
#define LOCKSTEP_TOOLS_PERF_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/compute.h"
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
    // What the operation gets.
    std::byte* data() const { return memory_.data(); }
    // Where the host reads and writes.
    std::byte* seen() const { return copied() ? copy_.data() : data(); }
    bool copied() const { return copy_.bytes() > 0; }

   private:
    ArenaBuffer memory_;
    ArenaBuffer copy_;
  };

  // `device` null: the arena's memory is the host's.
  Memory(Arena* arena, transport::Compute* device)
      : arena_(*arena), device_(device) {}

  absl::StatusOr<Buffer> Allocate(size_t bytes) {
    absl::StatusOr<ArenaBuffer> memory = arena_.Allocate(bytes);
    if (!memory.ok()) return memory.status();
    if (device_ == nullptr) return Buffer(*std::move(memory), {});
    absl::StatusOr<ArenaBuffer> copy = device_->AllocateStaging(bytes);
    if (!copy.ok()) return copy.status();
    return Buffer(*std::move(memory), *std::move(copy));
  }

  // Each returns once it is done; nothing to do where there is one memory.
  absl::Status Give(const Buffer& buffer) {
    return Copy(buffer, buffer.seen(), buffer.data());
  }
  absl::Status Take(const Buffer& buffer) {
    return Copy(buffer, buffer.data(), buffer.seen());
  }

 private:
  absl::Status Copy(const Buffer& buffer, const void* from, void* to) {
    if (!buffer.copied()) return absl::OkStatus();
    return device_->Perform(nullptr, [&](transport::Compute::Site& site) {
      site.Copy(from, to, buffer.bytes());
      return site.status().ok() ? site.Done().Wait() : site.status();
    });
  }

  Arena& arena_;
  transport::Compute* const device_;
};

}  // namespace lockstep::perf

#endif  // LOCKSTEP_TOOLS_PERF_MEMORY_H_

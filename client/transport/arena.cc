#include "lockstep/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

// Larger buffers are mapped: the kernel zeroes the pages, and gets them back
// when they are freed.
constexpr size_t kMappedBytesMin = 1 << 20;

std::shared_ptr<void> Mapped(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  return {data, [bytes](void* mapped) { munmap(mapped, bytes); }};
}

std::shared_ptr<void> FromHeap(size_t bytes) {
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded =
      (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
  void* data = std::aligned_alloc(Arena::kAlignment, rounded);
  if (data == nullptr) return nullptr;
  std::memset(data, 0, rounded);
  return {data, std::free};
}

class PlainArena final : public Arena {
 public:
  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    if (bytes == 0) {
      return absl::InvalidArgumentError("an arena has no buffer of 0 bytes");
    }
    std::shared_ptr<void> owner =
        bytes >= kMappedBytesMin ? Mapped(bytes) : FromHeap(bytes);
    if (owner == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for an arena buffer of ", bytes, " bytes"));
    }
    void* data = owner.get();
    return ArenaBuffer(data, bytes, std::move(owner));
  }
};

}  // namespace

std::unique_ptr<Arena> MakePlainArena() {
  return std::make_unique<PlainArena>();
}

}  // namespace lockstep

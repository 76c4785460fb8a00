#include "client/transport/shm/shared_arena.h"

#include <unistd.h>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::transport {
namespace {

constexpr size_t kOwnSegmentBytesMin = 1 << 20;
constexpr size_t kSlabBytes = 4 << 20;
constexpr char kWhat[] = "an arena";

size_t RoundedUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uintptr_t Address(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

// Buffers are cut from its front. It is freed with its last buffer.
struct Slab {
  std::shared_ptr<SharedSegment> segment;
  size_t used = 0;
};

class SharedArena final : public Arena {
 public:
  explicit SharedArena(std::shared_ptr<SegmentRegistry> registry)
      : registry_(std::move(registry)) {}

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) override {
    if (bytes == 0) {
      return absl::InvalidArgumentError("an arena has no buffer of 0 bytes");
    }
    if (bytes > std::numeric_limits<size_t>::max() / 2) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "an arena buffer of ", bytes, " bytes is larger than memory"));
    }
    return bytes >= kOwnSegmentBytesMin ? AllocateSegment(bytes)
                                        : CutFromSlab(bytes);
  }

 private:
  absl::StatusOr<ArenaBuffer> AllocateSegment(size_t bytes) {
    auto segment = registry_->Create(RoundedUp(bytes, sysconf(_SC_PAGESIZE)));
    if (!segment.ok()) return segment.status();
    std::byte* const data = (*segment)->memory.data();
    return ArenaBuffer(data, bytes, *std::move(segment));
  }

  // The space of a slab is never reused, so all buffers are zeroed.
  absl::StatusOr<ArenaBuffer> CutFromSlab(size_t bytes) {
    const size_t space = RoundedUp(bytes, kAlignment);
    MutexLock lock(&mutex_);
    if (slab_.segment == nullptr || kSlabBytes - slab_.used < space) {
      auto segment = registry_->Create(kSlabBytes);
      if (!segment.ok()) return segment.status();
      slab_ = {*std::move(segment)};
    }
    std::byte* const data = slab_.segment->memory.data() + slab_.used;
    slab_.used += space;
    return ArenaBuffer(data, bytes, slab_.segment);
  }

  const std::shared_ptr<SegmentRegistry> registry_;
  Mutex mutex_;
  Slab slab_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::shared_ptr<SharedSegment>> SegmentRegistry::Create(
    size_t bytes) {
  absl::StatusOr<Segment> memory = Segment::Create(bytes, kWhat);
  if (!memory.ok()) return std::move(memory).status();
  auto made = std::make_unique<SharedSegment>();
  made->memory = *std::move(memory);
  made->id = ++ids_;
  std::shared_ptr<SharedSegment> segment(
      made.release(), [registry = shared_from_this()](SharedSegment* released) {
        registry->Release(released);
      });
  MutexLock lock(&mutex_);
  segments_[Address(segment->memory.data()) + bytes] = segment;
  return segment;
}

void SegmentRegistry::Release(SharedSegment* segment) {
  {
    MutexLock lock(&mutex_);
    segments_.erase(Address(segment->memory.data()) + segment->memory.bytes());
  }
  delete segment;
  ++releases_;
}

SegmentRegistry::Found SegmentRegistry::Find(const void* data,
                                             size_t bytes) const {
  std::shared_ptr<SharedSegment> segment;
  {
    MutexLock lock(&mutex_);
    const auto at = segments_.upper_bound(Address(data));
    if (at == segments_.end() || at->first - Address(data) < bytes) return {};
    segment = at->second.lock();
  }
  if (segment == nullptr || segment->exposed ||
      Address(data) < Address(segment->memory.data())) {
    return {};
  }
  const uint64_t offset = Address(data) - Address(segment->memory.data());
  return {std::move(segment), offset};
}

void SegmentRegistry::Renew(SharedSegment& segment, uint64_t id) {
  MutexLock lock(&segment.renewing);
  if (segment.id != id) return;
  segment.exposed = !segment.memory.Renew(kWhat).ok();
  if (!segment.exposed) segment.id = ++ids_;
}

absl::Status SegmentRegistry::Sound() const {
  std::vector<std::shared_ptr<SharedSegment>> all;
  {
    MutexLock lock(&mutex_);
    for (const auto& [end, segment] : segments_) all.push_back(segment.lock());
  }
  for (const auto& segment : all) {
    if (segment == nullptr || !segment->exposed) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "a lost worker may still write to ", segment->memory.bytes(),
        " bytes of the arena, and there was no memory to put in their place"));
  }
  return absl::OkStatus();
}

std::unique_ptr<Arena> MakeSharedArena(
    std::shared_ptr<SegmentRegistry> registry) {
  return std::make_unique<SharedArena>(std::move(registry));
}

}  // namespace lockstep::transport

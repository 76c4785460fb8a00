// The arena of jobs whose workers share memory: every buffer is in a segment
// that peers can map.
//
//   large    [ segment = one buffer                ]   1 MiB and more
//   small    [ buffer | buffer | buffer |    free  ]   cut from a slab
//
// The arena sends nothing to peers. When an operation names a buffer, the
// group's SegmentExporter finds its segment in the registry and sends it to the
// peers that will read it.
//
// Threads: any. Ownership: the registry and the buffers outlive the arena.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHARED_ARENA_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHARED_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/shm/segment.h"
#include "lockstep/arena.h"

namespace lockstep::transport {

// A segment of an arena. The id names its current pages; a process never reuses
// one.
struct SharedSegment {
  Segment memory;
  std::atomic<uint64_t> id{0};
  // A lost peer may still write to it, so it is no longer exported.
  std::atomic<bool> exposed{false};
  mutable Mutex renewing;  // while it is renewed, or its file is sent
};

// Finds the shared segment of an address of this process.
class SegmentRegistry : public std::enable_shared_from_this<SegmentRegistry> {
 public:
  struct Found {
    std::shared_ptr<SharedSegment> segment;  // null: private memory
    uint64_t offset = 0;
  };

  absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t bytes);

  // The segment and offset of [data, data + bytes).
  Found Find(const void* data, size_t bytes) const;

  // Gives `segment` new pages at the same addresses and a new id. No effect if
  // its id is no longer `id`. If there is no memory for it, marks it exposed.
  void Renew(SharedSegment& segment, uint64_t id);

  // ResourceExhausted as long as any segment is exposed.
  absl::Status Sound() const;

  // How many segments have been freed so far.
  uint64_t releases() const { return releases_.load(); }

 private:
  void Release(SharedSegment* segment);

  // Never drop a shared_ptr that may be the last while locked: Release locks.
  mutable Mutex mutex_;
  std::map<uintptr_t, std::weak_ptr<SharedSegment>> segments_
      ABSL_GUARDED_BY(mutex_);  // by their end address
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint64_t> releases_{0};
};

std::unique_ptr<Arena> MakeSharedArena(
    std::shared_ptr<SegmentRegistry> registry);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHARED_ARENA_H_

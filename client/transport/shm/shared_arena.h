// The arena of jobs whose workers share memory: every buffer lies in a segment
// that peers can map.
//
//   large    [ segment = one buffer                ]   1 MiB and more
//   small    [ buffer | buffer | buffer |    free  ]   cut from a slab
//
// The arena itself gives nothing to anybody: a group's board (board.h) finds
// the segment of a buffer here when an operation names it, and sends it to the
// peers that will read it.
//
// Threads: any. Ownership: the book and its buffers outlive the arena.

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

// A segment of an arena. Its id names its present pages: no two pages that one
// process ever shared have the same.
struct SharedSegment {
  Segment memory;
  std::atomic<uint64_t> id{0};
  // Somebody who should not may still write to it: it is lent no more.
  std::atomic<bool> exposed{false};
  mutable Mutex renewing;  // taken by who renews it, or gives its file away
};

// Which addresses of this process lie in shared segments.
class SegmentRegistry : public std::enable_shared_from_this<SegmentRegistry> {
 public:
  struct Found {
    std::shared_ptr<SharedSegment> segment;  // null: in none
    uint64_t offset = 0;
  };

  absl::StatusOr<std::shared_ptr<SharedSegment>> Create(size_t bytes);

  // Where [data, data + bytes) lies.
  Found Find(const void* data, size_t bytes) const;

  // Fresh pages and a new id for `segment`, at the same addresses, unless it
  // has another id than `id` already. If there is no memory for that, it is
  // exposed.
  void Renew(SharedSegment& segment, uint64_t id);

  // ResourceExhausted as long as any segment is exposed.
  absl::Status Sound() const;

  // How many segments have been let go so far.
  uint64_t releases() const { return releases_.load(); }

 private:
  void Release(SharedSegment* segment);

  // A shared_ptr that may be a segment's last is dropped without this lock: its
  // Release takes it.
  mutable Mutex mutex_;
  std::map<uintptr_t, std::weak_ptr<SharedSegment>> segments_
      ABSL_GUARDED_BY(mutex_);  // by the address behind their last byte
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint64_t> releases_{0};
};

std::unique_ptr<Arena> MakeSharedArena(
    std::shared_ptr<SegmentRegistry> registry);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHARED_ARENA_H_

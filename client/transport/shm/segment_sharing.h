// Segments of arenas, between the members of a group: what this rank lets the
// others map, and what it has mapped of theirs.
//
//   owner     Offer(buffer) ─▶ Place{segment 7, offset}   in its announcement
//                └─ the first time: [id 7, bytes, file] over the socket
//   reader    Resolve(place) ─▶ an address of its own
//                └─ the first time: takes the file from the socket, maps it
//
// A file is sent before the announcement that names it, so a reader never waits
// for one. A segment that its owner has freed is struck off the list in the
// owner's seat; readers unmap it when they next meet the owner.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_SHARING_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_SHARING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/segment.h"
#include "client/transport/shm/shared_arena.h"

namespace lockstep::transport {

class SegmentExporter {
 public:
  // `sockets` by rank, this rank's own unused. `book` may be null: then all
  // memory is private.
  SegmentExporter(std::shared_ptr<SegmentRegistry> registry, ControlBlock mine,
                  std::vector<int> sockets)
      : registry_(std::move(registry)),
        mine_(mine),
        sockets_(std::move(sockets)) {}

  // Where [data, data + bytes) lies, known to all `readers` from now on; in
  // private memory if it lies in no segment, or cannot be shared.
  SegmentAddress Offer(const void* data, size_t bytes, RankMask readers);

  // How many of the offered segments have been freed. Takes no lock unless some
  // have since.
  uint32_t releases();

  // Whom segments have been lent to that still have an owner.
  RankMask Importers();

  // Renews the segments that a rank of `unproven` may still write to; see
  // SegmentRegistry::Renew.
  void TakeBack(RankMask unproven);

 private:
  struct Exported {
    std::weak_ptr<SharedSegment> segment;
    RankMask to = 0;
    SharedEntry* entry = nullptr;
  };

  Exported* ExportOf(const std::shared_ptr<SharedSegment>& segment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GiveTo(RankMask readers, const SharedSegment& segment,
              Exported& exported) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StrikeOffReleased() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SegmentRegistry> registry_;
  const ControlBlock mine_;
  const std::vector<int> sockets_;

  Mutex mutex_;
  std::map<uint64_t, Exported> exported_ ABSL_GUARDED_BY(mutex_);  // by id
  std::atomic<uint32_t> releases_{0};
  // The book's, as far as lent_ knows: written last, so that who finds it up to
  // date finds releases_ so, too.
  std::atomic<uint64_t> seen_releases_{0};
};

// What is mapped of one peer's.
class SegmentImporter {
 public:
  // `colour` (segment.h) is to differ among what is used together; 0 is this
  // rank's own.
  SegmentImporter(int peer, ControlBlock theirs, int socket, size_t colour)
      : peer_(peer), theirs_(theirs), socket_(socket), colour_(colour) {}

  // Where `place` is in this process. DataLoss, blaming the peer, if it names
  // memory that the peer has not given, or more of it than there is.
  absl::StatusOr<std::byte*> Resolve(SegmentAddress place, size_t bytes);

  // Unmaps what the peer has freed, if it says that it has. Takes no lock if it
  // says nothing new.
  void UnmapReleased(uint32_t releases);

  void UnmapAll();

 private:
  absl::StatusOr<const Segment*> Receive(uint64_t id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int peer_;
  const ControlBlock theirs_;
  const int socket_;
  const size_t colour_;

  Mutex mutex_;
  std::map<uint64_t, Segment> mapped_ ABSL_GUARDED_BY(mutex_);  // by id
  std::atomic<uint32_t> seen_releases_{0};
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_SHARING_H_

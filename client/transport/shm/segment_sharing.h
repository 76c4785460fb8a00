// Shares arena segments between the members of a group: the exporter lets peers
// map this rank's segments, an importer maps those of one peer.
//
//   owner     Offer(buffer) ─▶ SegmentAddress{7, offset}   in its announcement
//                └─ the first time: [id 7, bytes, file] over the socket
//   reader    Resolve(address) ─▶ a pointer in its own process
//                └─ the first time: receives the file from the socket, maps it
//
// A file is sent before the announcement that names it, so a reader never waits
// for it. When its owner frees a segment, the entry in the owner's control
// block is cleared; readers unmap it at their next operation with the owner.
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
  // `sockets` by rank; the own one is unused. If `registry` is null, all memory
  // is private.
  SegmentExporter(std::shared_ptr<SegmentRegistry> registry, ControlBlock mine,
                  std::vector<int> sockets)
      : registry_(std::move(registry)),
        mine_(mine),
        sockets_(std::move(sockets)) {}

  // The address of [data, data + bytes), after sending its segment to those
  // `readers` that lack it. Segment 0 (private memory) if it is in no segment,
  // or cannot be shared.
  SegmentAddress Offer(const void* data, size_t bytes, RankMask readers);

  // How many exported segments have been freed. Locks only if the number has
  // changed.
  uint32_t releases();

  // The peers to which a segment was sent that is not freed yet.
  RankMask Importers();

  // Renews the segments to which a rank of `unproven` may still write; see
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
  // The registry's releases() that exported_ reflects. Written after releases_,
  // so a thread that finds it current finds releases_ current.
  std::atomic<uint64_t> seen_releases_{0};
};

// The mapped segments of one peer.
class SegmentImporter {
 public:
  // `colour`: the page offset (segment.h). It differs between segments that are
  // used together; the own segments have 0.
  SegmentImporter(int peer, ControlBlock theirs, int socket, size_t page_offset)
      : peer_(peer), theirs_(theirs), socket_(socket), colour_(page_offset) {}

  // The pointer to `place` in this process. DataLoss, with the failed peer, if
  // the peer has not sent that segment, or the range exceeds it.
  absl::StatusOr<std::byte*> Resolve(SegmentAddress place, size_t bytes);

  // Unmaps the segments that the peer has freed. `releases`: the peer's
  // published count. Locks only if it has changed.
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

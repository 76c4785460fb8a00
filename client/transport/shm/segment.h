// Memory that several processes map: a memfd, which has no name and so cannot
// be left behind.
//
//   owner   Create ─▶ fd ──(socket)──▶ Map   peer
//             │                          │
//             ▼                          ▼
//           data()  ═══ the same pages ═══  data()
//
// Create allocates the pages (fallocate) and seals the size. So an access never
// raises SIGBUS, whatever a peer does to the file. (If a peer punches a hole,
// the next access finds a zeroed page.)
//
// Page offsets: AMD processors predict the L1 way of a line by a hash of
// address bits 12 to 27. A reduction reads the same offset of several segments
// in turn. If the addresses have the same hash, each prediction is wrong, and
// it runs at an eighth of its speed. So segments that are used together are
// mapped at different page offsets.
//
// Threads: any, one at a time; data() and bytes() from any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace lockstep::transport {

// When page table entries are made: all at once (MAP_POPULATE), which costs a
// fraction in total, or each at its first access.
enum class Lookup { kAllNow, kEachLater };

class Segment {
 public:
  // Zeroed memory, first touched by the calling thread. `what` names it in
  // /proc/PID/maps and in errors. ResourceExhausted, with the sizes needed and
  // available, if it cannot be allocated.
  static absl::StatusOr<Segment> Create(size_t bytes, const std::string& what,
                                        Lookup lookup = Lookup::kAllNow);

  // The number of page offsets. Map takes `page_offset` modulo this; Create
  // uses 0.
  static constexpr size_t kPageOffsets = 64;

  // Maps another process's segment. InvalidArgument unless `fd` is a sealed
  // memfd of this size.
  static absl::StatusOr<Segment> Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup = Lookup::kAllNow,
                                     size_t page_offset = 0);

  // Makes the page table entries of the first `bytes` now. Without effect on
  // kernels before 5.14.
  void LookUp(size_t bytes) const;

  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Segment();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

  // Replaces the pages by new ones with the same bytes at the same addresses.
  // Peers keep the old file, emptied, and can no longer reach this memory. No
  // thread of this process may write to it meanwhile. Needs memory for one
  // piece, 64 MiB. After an error all bytes are intact, and some pages are old.
  absl::Status Renew(const std::string& what);

 private:
  // `space`: the reserved address range, SpaceOf(bytes) long.
  Segment(void* space, void* data, size_t bytes, FileDescriptor fd)
      : space_(space), data_(data), bytes_(bytes), fd_(std::move(fd)) {}

  void* space_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  FileDescriptor fd_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_H_

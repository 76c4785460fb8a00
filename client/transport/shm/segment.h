// A piece of memory that several processes map: a memfd, which has no name and
// so cannot be left behind.
//
//   owner   Create ─▶ fd ──(socket)──▶ Map   peer
//             │                          │
//             ▼                          ▼
//           data()  ═══ the same pages ═══  data()
//
// The pages are taken when it is created (fallocate), and its size is sealed:
// touching it is never SIGBUS, whatever a peer does to the file. (A page that a
// peer gives back is a zeroed one at the next touch.)
//
// Colours: processors guess where in the first cache a line lies by a hash of
// some bits of its address (AMD's way predictor, of bits 12 to 27). A reduction
// reads the same place of several segments in turn; where the addresses have
// the same hash, every guess is wrong, and it runs at an eighth of its speed.
// So segments that are used together are given colours: pages by which their
// beginnings are shifted.
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

// When a mapping's pages are looked up: all at once, which is a fraction of the
// price, or each when it is first touched.
enum class Lookup { kAllNow, kEachLater };

class Segment {
 public:
  // Fresh zeroed memory, first touched by the calling thread. `what` is for
  // people (/proc/PID/maps, errors). ResourceExhausted, with the size needed
  // and the size there, if it cannot be had.
  static absl::StatusOr<Segment> Create(size_t bytes, const std::string& what,
                                        Lookup lookup = Lookup::kAllNow);

  // Of Map: kColours different ones, modulo that; Create's is 0.
  static constexpr size_t kColours = 64;

  // Another process's. InvalidArgument unless it is a sealed memory file of
  // this size.
  static absl::StatusOr<Segment> Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup = Lookup::kAllNow,
                                     size_t colour = 0);

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

  // Puts fresh pages with the same bytes at the same addresses. Who has mapped
  // the old ones keeps those, emptied, and reaches this memory no more. Nobody
  // here may write to it meanwhile. It needs memory for a piece of it, 64 MiB.
  // After an error the bytes are all there, and some of the pages old.
  absl::Status Renew(const std::string& what);

 private:
  // `space` is what was reserved of addresses, from the kernel.
  Segment(void* space, void* data, size_t bytes, FileDescriptor fd)
      : space_(space), data_(data), bytes_(bytes), fd_(std::move(fd)) {}

  void* space_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  FileDescriptor fd_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_H_

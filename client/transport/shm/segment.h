// A piece of memory that several processes map: a memfd, which has no name and
// so cannot be left behind.
//
//   owner   Create ─▶ fd ──(socket)──▶ Map   peer
//             │                          │
//             ▼                          ▼
//           data()  ═══ the same pages ═══  data()
//
// The pages are taken when it is created (fallocate), and its size is sealed:
// touching it can never be SIGBUS, whatever a peer does to the file.
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

  // Another process's. InvalidArgument unless it is a sealed memory file of
  // this size.
  static absl::StatusOr<Segment> Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup = Lookup::kAllNow);

  Segment() = default;
  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept {
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
  // the old ones keeps them, and reaches this memory no more. Nobody here may
  // write to it meanwhile.
  absl::Status Renew(const std::string& what);

 private:
  Segment(void* data, size_t bytes, FileDescriptor fd)
      : data_(data), bytes_(bytes), fd_(std::move(fd)) {}

  void* data_ = nullptr;
  size_t bytes_ = 0;
  FileDescriptor fd_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SEGMENT_H_

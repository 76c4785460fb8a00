#include "client/transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/transport/shm/available_memory.h"

namespace lockstep::transport {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status NoMemory(size_t bytes, const std::string& what,
                      const std::string& why) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no shared memory for ", what, ": ", bytes,
                   " bytes are needed, ", AvailableMemory(), " are there",
                   why.empty() ? "" : " (", why, why.empty() ? "" : ")"));
}

std::string Said(const char* call) {
  return absl::StrCat(call, ": ", std::strerror(errno));
}

absl::StatusOr<FileDescriptor> CreateFile(size_t bytes,
                                          const std::string& what) {
  if (bytes > AvailableMemory()) return NoMemory(bytes, what, "");
  FileDescriptor fd(memfd_create(absl::StrCat("lockstep ", what).c_str(),
                                 MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return NoMemory(bytes, what, Said("memfd_create"));
  if (fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return NoMemory(bytes, what, Said("fallocate"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    return NoMemory(bytes, what, Said("sealing"));
  }
  return fd;
}

constexpr size_t kPage = 4096;

// Addresses of a segment and of what its colour may shift it by.
size_t SpaceOf(size_t bytes) { return bytes + Segment::kColours * kPage; }

void* Reserve(size_t bytes) {
  return mmap(nullptr, SpaceOf(bytes), PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// In place of what is at `at`.
bool MapAt(void* at, int fd, size_t bytes, Lookup lookup) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED |
                  (lookup == Lookup::kAllNow ? MAP_POPULATE : 0),
              fd, 0) != MAP_FAILED;
}

}  // namespace

absl::StatusOr<Segment> Segment::Create(size_t bytes, const std::string& what,
                                        Lookup lookup) {
  absl::StatusOr<FileDescriptor> fd = CreateFile(bytes, what);
  if (!fd.ok()) return std::move(fd).status();
  void* const space = Reserve(bytes);
  if (space == MAP_FAILED) return NoMemory(bytes, what, Said("mmap"));
  Segment segment(space, space, bytes, *std::move(fd));
  if (!MapAt(space, segment.fd(), bytes, lookup)) {
    return NoMemory(bytes, what, Said("mmap"));
  }
  return segment;
}

absl::StatusOr<Segment> Segment::Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup, size_t colour) {
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      static_cast<uint64_t>(file.st_size) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is no file of ", bytes, " bytes"));
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return absl::InvalidArgumentError("its size is not sealed");
  }
  void* const space = Reserve(bytes);
  if (space == MAP_FAILED) {
    return NoMemory(bytes, "another rank's memory", Said("mmap"));
  }
  // What is mapped stays; the descriptor would only count against the limit.
  Segment segment(space,
                  static_cast<std::byte*>(space) + colour % kColours * kPage,
                  bytes, FileDescriptor());
  if (!MapAt(segment.data_, fd.get(), bytes, lookup)) {
    return NoMemory(bytes, "another rank's memory", Said("mmap"));
  }
  return segment;
}

Segment::~Segment() {
  if (space_ != nullptr) munmap(space_, SpaceOf(bytes_));
}

absl::Status Segment::Renew(const std::string& what) {
  absl::StatusOr<Segment> fresh = Create(bytes_, what);
  if (!fresh.ok()) return std::move(fresh).status();
  std::memcpy(fresh->data_, data_, bytes_);
  if (!MapAt(data_, fresh->fd(), bytes_, Lookup::kAllNow)) {
    return NoMemory(bytes_, what, Said("mmap"));
  }
  std::swap(fd_, fresh->fd_);
  return absl::OkStatus();
}

}  // namespace lockstep::transport

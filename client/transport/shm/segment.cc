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

void* MapWhole(int fd, size_t bytes, Lookup lookup, void* at = nullptr) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | (lookup == Lookup::kAllNow ? MAP_POPULATE : 0) |
                  (at != nullptr ? MAP_FIXED : 0),
              fd, 0);
}

}  // namespace

absl::StatusOr<Segment> Segment::Create(size_t bytes, const std::string& what,
                                        Lookup lookup) {
  absl::StatusOr<FileDescriptor> fd = CreateFile(bytes, what);
  if (!fd.ok()) return std::move(fd).status();
  void* const data = MapWhole(fd->get(), bytes, lookup);
  if (data == MAP_FAILED) return NoMemory(bytes, what, Said("mmap"));
  return Segment(data, bytes, *std::move(fd));
}

absl::StatusOr<Segment> Segment::Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup) {
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
  void* const data = MapWhole(fd.get(), bytes, lookup);
  if (data == MAP_FAILED) {
    return NoMemory(bytes, "another rank's memory", Said("mmap"));
  }
  // What is mapped stays; the descriptor would only count against the limit.
  return Segment(data, bytes, FileDescriptor());
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::Status Segment::Renew(const std::string& what) {
  absl::StatusOr<Segment> fresh = Create(bytes_, what);
  if (!fresh.ok()) return std::move(fresh).status();
  std::memcpy(fresh->data_, data_, bytes_);
  if (MapWhole(fresh->fd(), bytes_, Lookup::kAllNow, data_) == MAP_FAILED) {
    return NoMemory(bytes_, what, Said("mmap"));
  }
  std::swap(fd_, fresh->fd_);
  return absl::OkStatus();
}

}  // namespace lockstep::transport

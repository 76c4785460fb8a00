#include "client/transport/shm/segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/open_files.h"
#include "client/transport/shm/available_memory.h"

namespace lockstep::transport {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Memory is allocated in pieces. On some kernels a signal undoes a whole
// fallocate; and available memory is checked again before each piece.
constexpr size_t kPiece = 64 << 20;

// `taken`: the bytes of it that are allocated already.
absl::Status NoMemory(size_t bytes, const std::string& what,
                      const std::string& why, size_t taken = 0) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no shared memory for ", what, ": ", bytes, " bytes are needed, ",
      taken + AvailableMemory(), " are there", why.empty() ? "" : " (", why,
      why.empty() ? "" : ")"));
}

std::string SystemError(const char* call) {
  return absl::StrCat(call, ": ", std::strerror(errno));
}

// Blocks all signals of the calling thread. Unlike SignalsBlocked it includes a
// profiler's, whose interval is shorter than the allocation of a piece.
class SignalsLater {
 public:
  SignalsLater() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsLater() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsLater(const SignalsLater&) = delete;
  SignalsLater& operator=(const SignalsLater&) = delete;

 private:
  sigset_t before_;
};

// Creates a memfd without pages.
absl::StatusOr<FileDescriptor> NewFile(size_t bytes, const std::string& what) {
  if (bytes > LargestFile()) return NoMemory(bytes, what, "ulimit -f");
  FileDescriptor fd(memfd_create(absl::StrCat("lockstep ", what).c_str(),
                                 MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    const bool no_file = errno == EMFILE || errno == ENFILE;
    const std::string published = SystemError("memfd_create");
    return no_file ? OutOfFiles(published) : NoMemory(bytes, what, published);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return NoMemory(bytes, what, SystemError("ftruncate"));
  }
  return fd;
}

// Allocates the pages of the piece that begins at `at`.
absl::Status TakePiece(int fd, size_t at, size_t bytes,
                       const std::string& what) {
  const size_t piece = std::min(kPiece, bytes - at);
  if (piece > AvailableMemory()) return NoMemory(bytes, what, "", at);
  int taken = 0;
  do {
    const SignalsLater later;
    taken = fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(piece));
  } while (taken != 0 && errno == EINTR);
  return taken == 0 ? absl::OkStatus()
                    : NoMemory(bytes, what, SystemError("fallocate"), at);
}

absl::Status SealFile(int fd, size_t bytes, const std::string& what) {
  return fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) == 0
             ? absl::OkStatus()
             : NoMemory(bytes, what, SystemError("sealing"), bytes);
}

absl::StatusOr<FileDescriptor> CreateFile(size_t bytes,
                                          const std::string& what) {
  if (bytes > AvailableMemory()) return NoMemory(bytes, what, "");
  absl::StatusOr<FileDescriptor> fd = NewFile(bytes, what);
  if (!fd.ok()) return fd;
  for (size_t at = 0; at < bytes; at += kPiece) {
    absl::Status taken = TakePiece(fd->get(), at, bytes, what);
    if (!taken.ok()) return taken;
  }
  absl::Status sealed = SealFile(fd->get(), bytes, what);
  if (!sealed.ok()) return sealed;
  return fd;
}

constexpr size_t kPage = 4096;

// The address range of a segment, with room for its page offset.
size_t SpaceOf(size_t bytes) { return bytes + Segment::kPageOffsets * kPage; }

void* Reserve(size_t bytes) {
  return mmap(nullptr, SpaceOf(bytes), PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// Replaces the mapping at `at`.
bool MapAt(void* at, int fd, size_t bytes, Lookup lookup, size_t offset = 0) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED |
                  (lookup == Lookup::kAllNow ? MAP_POPULATE : 0),
              fd, static_cast<off_t>(offset)) != MAP_FAILED;
}

bool WriteAll(int fd, const std::byte* data, size_t bytes, size_t offset) {
  while (bytes > 0) {
    const ssize_t done = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    bytes -= done;
    offset += done;
  }
  return true;
}

}  // namespace

absl::StatusOr<Segment> Segment::Create(size_t bytes, const std::string& what,
                                        Lookup lookup) {
  absl::StatusOr<FileDescriptor> fd = CreateFile(bytes, what);
  if (!fd.ok()) return std::move(fd).status();
  void* const space = Reserve(bytes);
  if (space == MAP_FAILED) return NoMemory(bytes, what, SystemError("mmap"));
  Segment segment(space, space, bytes, *std::move(fd));
  if (!MapAt(space, segment.fd(), bytes, lookup)) {
    return NoMemory(bytes, what, SystemError("mmap"));
  }
  return segment;
}

absl::StatusOr<Segment> Segment::Map(FileDescriptor fd, size_t bytes,
                                     Lookup lookup, size_t page_offset) {
  struct stat file {};
  if (fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      static_cast<uint64_t>(file.st_size) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is no file of ", bytes, " bytes"));
  }
  if (static_cast<uint64_t>(file.st_blocks) * 512 < bytes) {
    return absl::InvalidArgumentError("it has holes");
  }
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return absl::InvalidArgumentError("its size is not sealed");
  }
  void* const space = Reserve(bytes);
  if (space == MAP_FAILED) {
    return NoMemory(bytes, "another rank's memory", SystemError("mmap"));
  }
  // A mapping needs no descriptor, which would count against the limit.
  Segment segment(
      space,
      static_cast<std::byte*>(space) + page_offset % kPageOffsets * kPage,
      bytes, FileDescriptor());
  if (!MapAt(segment.data_, fd.get(), bytes, lookup)) {
    return NoMemory(bytes, "another rank's memory", SystemError("mmap"));
  }
  return segment;
}

void Segment::LookUp(size_t bytes) const {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  const size_t pages = (std::min(bytes, bytes_) + kPage - 1) / kPage;
  madvise(data_, pages * kPage, MADV_POPULATE_WRITE);
}

Segment::~Segment() {
  if (space_ != nullptr) munmap(space_, SpaceOf(bytes_));
}

// Piece by piece, so that it does not need all of the memory twice: holes are
// punched into the old file.
absl::Status Segment::Renew(const std::string& what) {
  absl::StatusOr<FileDescriptor> fresh = NewFile(bytes_, what);
  if (!fresh.ok()) return std::move(fresh).status();
  for (size_t at = 0; at < bytes_; at += kPiece) {
    const size_t piece = std::min(kPiece, bytes_ - at);
    absl::Status taken = TakePiece(fresh->get(), at, bytes_, what);
    if (!taken.ok()) return taken;
    if (!WriteAll(fresh->get(), data() + at, piece, at)) {
      return NoMemory(bytes_, what, SystemError("pwrite"), at);
    }
    if (!MapAt(data() + at, fresh->get(), piece, Lookup::kAllNow, at)) {
      return NoMemory(bytes_, what, SystemError("mmap"), at);
    }
    fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(at), static_cast<off_t>(piece));
  }
  absl::Status sealed = SealFile(fresh->get(), bytes_, what);
  if (sealed.ok()) fd_ = *std::move(fresh);
  return sealed;
}

}  // namespace lockstep::transport

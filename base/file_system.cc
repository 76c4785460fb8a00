#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace lockstep {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(what, " ", path);
  switch (error) {
    case ENOTEMPTY:
    case EISDIR:
    case ENOTDIR:
      return absl::FailedPreconditionError(
          absl::ErrnoToStatus(error, message).message());
    default: return absl::ErrnoToStatus(error, message);
  }
}

constexpr uint64_t kPageBytes = 4096;

class PosixFile final : public WritableFile {
 public:
  PosixFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {
    const off_t end = lseek(fd_.get(), 0, SEEK_END);
    if (end > 0) end_ = end;  // else empty, or a device
    started_ = end_ / kPageBytes * kPageBytes;
  }

  absl::Status Append(absl::string_view bytes) override {
    if (!status_.ok()) return status_;
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return status_ = Failed("write", path_);
      bytes.remove_prefix(written);
      end_ += written;
    }
    return absl::OkStatus();
  }

  absl::Status StartWriteback() override {
    if (!status_.ok()) return status_;
    // Not the last page if it is partly filled: the next Append would wait for
    // it to be written.
    const uint64_t end = end_ / kPageBytes * kPageBytes;
    if (end == started_) return absl::OkStatus();
    const int failed = sync_file_range(fd_.get(), started_, end - started_,
                                       SYNC_FILE_RANGE_WRITE);
    if (failed != 0 && !IsUnsupported(errno)) {
      return status_ = Failed("start to write back", path_);
    }
    started_ = end;
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (status_.ok() && fsync(fd_.get()) != 0) {
      status_ = Failed("fsync", path_);
    }
    return status_;
  }

 private:
  static bool IsUnsupported(int error) {
    return error == ENOSYS || error == EINVAL || error == ESPIPE ||
           error == EOPNOTSUPP;
  }

  const std::string path_;
  const FileDescriptor fd_;
  absl::Status status_;   // the first error
  uint64_t end_ = 0;      // of the file, in bytes
  uint64_t started_ = 0;  // writeback has begun up to here
};

// Reads until `bytes` are there, the file ends or an error occurs.
absl::StatusOr<size_t> ReadUpTo(const FileDescriptor& fd,
                                const std::string& path, uint64_t offset,
                                size_t bytes, char* to) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd.get(), to + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) break;
    done += got;
  }
  return done;
}

absl::StatusOr<struct stat> StatOfFile(const FileDescriptor& fd,
                                       const std::string& path) {
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return Failed("stat", path);
  if (S_ISREG(found.st_mode)) return found;
  if (!S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("read ", path, ": it is not a regular file"));
  }
  errno = EISDIR;
  return Failed("read", path);
}

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Read(uint64_t offset, size_t bytes, void* to) override {
    const absl::StatusOr<size_t> got =
        ReadUpTo(fd_, path_, offset, bytes, static_cast<char*>(to));
    if (!got.ok() || *got == bytes) return got.status();
    return absl::OutOfRangeError(absl::StrCat("read ", path_, ": ", bytes,
                                              " bytes from ", offset,
                                              " on, the file has ", *got));
  }

  absl::StatusOr<uint64_t> Size() override {
    const auto found = StatOfFile(fd_, path_);
    if (!found.ok()) return found.status();
    return static_cast<uint64_t>(found->st_size);
  }

 private:
  const std::string path_;
  const FileDescriptor fd_;
};

// The lock of a file is that of its open description.
class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(FileDescriptor fd) : fd_(std::move(fd)) {}

 private:
  const FileDescriptor fd_;
};

// Longer texts of a lock's holder are cut.
constexpr size_t kHolderBytesMax = 1024;

int FlagsOf(OpenMode mode) {
  constexpr int kCommon = O_WRONLY | O_CREAT | O_CLOEXEC;
  switch (mode) {
    case OpenMode::kCreate: return kCommon | O_EXCL | O_NOFOLLOW;
    case OpenMode::kTruncate: return kCommon | O_TRUNC;
    case OpenMode::kAppend: return kCommon | O_APPEND;
  }
  return kCommon;
}

absl::StatusOr<FileDescriptor> OpenToRead(const std::string& path,
                                          int flags = 0) {
  // Without O_NONBLOCK the open of a FIFO waits for a writer.
  FileDescriptor fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd.valid()) return Failed("open", path);
  return fd;
}

// The names in a directory, sorted; closes it. Null: it could not be opened.
absl::StatusOr<std::vector<std::string>> NamesIn(DIR* directory,
                                                 const std::string& path) {
  if (directory == nullptr) return Failed("list", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(directory, &closedir);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return Failed("list", path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status NoDirectory(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is not a directory, and is not removed"));
}

}  // namespace

absl::Status FileSystem::RemoveFolder(const std::string& path) {
  const auto kind = KindOf(path);
  if (!kind.ok()) return kind.status();
  if (*kind != FileKind::kDirectory) return NoDirectory(path);
  const auto names = List(path);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    absl::Status removed = Remove(absl::StrCat(path, "/", name));
    if (!removed.ok()) return removed;
  }
  return Remove(path);
}

absl::StatusOr<FileKind> PosixFileSystem::KindOf(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return Failed("stat", path);
  return S_ISREG(found.st_mode)   ? FileKind::kRegular
         : S_ISDIR(found.st_mode) ? FileKind::kDirectory
                                  : FileKind::kOther;
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Open(
    const std::string& path, OpenMode mode) {
  FileDescriptor fd(open(path.c_str(), FlagsOf(mode), 0666));
  if (!fd.valid()) return Failed("open", path);
  return std::make_unique<PosixFile>(path, std::move(fd));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::OpenForReading(
    const std::string& path) {
  absl::StatusOr<FileDescriptor> fd = OpenToRead(path);
  if (!fd.ok()) return fd.status();
  const auto found = StatOfFile(*fd, path);
  if (!found.ok()) return found.status();
  return std::make_unique<PosixReadableFile>(path, *std::move(fd));
}

absl::StatusOr<std::string> PosixFileSystem::Read(const std::string& path,
                                                  uint64_t offset,
                                                  size_t bytes) {
  absl::StatusOr<FileDescriptor> fd = OpenToRead(path);
  if (!fd.ok()) return fd.status();
  const auto found = StatOfFile(*fd, path);
  if (!found.ok()) return found.status();
  const uint64_t size = found->st_size;
  std::string text(offset < size ? std::min<uint64_t>(bytes, size - offset) : 0,
                   '\0');
  const absl::StatusOr<size_t> got =
      ReadUpTo(*fd, path, offset, text.size(), text.data());
  if (!got.ok()) return got.status();
  text.resize(*got);  // truncated meanwhile
  return text;
}

absl::StatusOr<uint64_t> PosixFileSystem::Size(const std::string& path) {
  absl::StatusOr<FileDescriptor> fd = OpenToRead(path);
  if (!fd.ok()) return fd.status();
  const auto found = StatOfFile(*fd, path);
  if (!found.ok()) return found.status();
  return static_cast<uint64_t>(found->st_size);
}

absl::Status PosixFileSystem::MakeDirectory(const std::string& path) {
  return mkdir(path.c_str(), 0777) == 0 ? absl::OkStatus()
                                        : Failed("mkdir", path);
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(
    const std::string& directory) {
  return NamesIn(opendir(directory.c_str()), directory);
}

absl::Status PosixFileSystem::SyncDirectory(const std::string& directory) {
  absl::StatusOr<FileDescriptor> fd = OpenToRead(directory, O_DIRECTORY);
  if (!fd.ok()) return fd.status();
  return fsync(fd->get()) == 0 ? absl::OkStatus() : Failed("fsync", directory);
}

absl::Status PosixFileSystem::Rename(const std::string& from,
                                     const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0
             ? absl::OkStatus()
             : Failed(absl::StrCat("rename ", from, " to"), to);
}

// Works on the open directory, so that a link which takes its place meanwhile
// leads nowhere.
absl::Status PosixFileSystem::RemoveFolder(const std::string& path) {
  const FileDescriptor folder(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) {
    return errno == ENOTDIR || errno == ELOOP ? NoDirectory(path)
                                              : Failed("open", path);
  }
  const int listed = fcntl(folder.get(), F_DUPFD_CLOEXEC, 0);
  if (listed < 0) return Failed("list", path);
  const auto names = NamesIn(fdopendir(listed), path);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (unlinkat(folder.get(), name.c_str(), 0) == 0) continue;
    return Failed("remove", absl::StrCat(path, "/", name));
  }
  return rmdir(path.c_str()) == 0 ? absl::OkStatus() : Failed("remove", path);
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  return remove(path.c_str()) == 0 ? absl::OkStatus() : Failed("remove", path);
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixFileSystem::Lock(
    const std::string& path, absl::string_view holder) {
  FileDescriptor fd(
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.valid()) return Failed("open", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("lock", path);
    const auto text = Read(path, 0, kHolderBytesMax);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is locked by ", text.value_or("another process")));
  }
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), holder.data(), holder.size(), 0) !=
          static_cast<ssize_t>(holder.size())) {
    return Failed("write", path);
  }
  return std::make_unique<PosixFileLock>(std::move(fd));
}

// --- In terms of FileSystem --------------------------------------------------

absl::StatusOr<std::string> ReadWhole(FileSystem* files,
                                      const std::string& path) {
  const absl::StatusOr<uint64_t> size = files->Size(path);
  if (!size.ok()) return size.status();
  return files->Read(path, 0, *size);
}

namespace {

absl::Status MayReplace(FileSystem* files, const std::string& path) {
  const absl::StatusOr<FileKind> kind = files->KindOf(path);
  if (absl::IsNotFound(kind.status())) return absl::OkStatus();
  if (!kind.ok()) return kind.status();
  if (*kind == FileKind::kRegular) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, *kind == FileKind::kDirectory
                             ? " is a directory, not a file"
                             : " is a link or a device, not a regular file"));
}

// The number of temporary names that are tried; a crash leaves one behind.
constexpr int kNamesBeside = 100;

// A temporary file in the same directory, created by this call: PATH.new, or
// PATH.new1 and so on if the name exists. An existing file is not changed.
struct Beside {
  std::string path;
  std::unique_ptr<WritableFile> file;
};

absl::StatusOr<Beside> OpenBeside(FileSystem* files, const std::string& path) {
  const absl::Status may = MayReplace(files, path);
  if (!may.ok()) return may;
  for (int i = 0; i < kNamesBeside; ++i) {
    std::string name =
        absl::StrCat(path, ".new", i == 0 ? "" : absl::StrCat(i));
    auto file = files->Open(name, OpenMode::kCreate);
    if (file.ok()) return Beside{std::move(name), *std::move(file)};
    if (!absl::IsAlreadyExists(file.status())) return file.status();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " cannot be written: ", path, ".new to ", path, ".new",
                   kNamesBeside - 1, " exist; remove them"));
}

// Removes the temporary file after an error.
absl::Status WriteBeside(FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync) {
  absl::StatusOr<Beside> beside = OpenBeside(files, path);
  if (!beside.ok()) return beside.status();
  absl::Status status = beside->file->Append(bytes);
  if (status.ok() && sync) status = beside->file->Sync();
  if (status.ok()) status = files->Rename(beside->path, path);
  if (!status.ok()) files->Remove(beside->path).IgnoreError();
  return status;
}

}  // namespace

absl::Status PublishFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes) {
  return WriteBeside(files, path, bytes, /*sync=*/false);
}

absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                             : path.substr(0, slash);
  absl::Status status = WriteBeside(files, path, bytes, /*sync=*/true);
  if (status.ok()) status = files->SyncDirectory(directory);
  return status;
}

}  // namespace lockstep

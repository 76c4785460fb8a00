// Files: an interface with the disk, or a simulated disk, behind it.
//
// Writes are durable only after a sync: a file's bytes after
// WritableFile::Sync, the names in a directory (created, renamed or removed)
// after SyncDirectory. Test code that needs durability with
// tests/support/memory_file_system.h, which drops everything else at a
// simulated crash.
//
// Threads: all methods from any thread; a WritableFile has one caller.
// Errors:  NotFound, AlreadyExists, FailedPrecondition (a directory that is not
//          empty, or a file of the wrong kind), PermissionDenied,
//          ResourceExhausted (no space), OutOfRange (the file ends before),
//          else Unknown or the code of absl::ErrnoToStatus. Messages name the
//          path.

#ifndef LOCKSTEP_BASE_FILE_SYSTEM_H_
#define LOCKSTEP_BASE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// The destructor closes the file. It keeps everything appended, and does not
// sync.
//
// The first error is returned by all later calls: the operating system reports
// a failed write to the device once and then regards the lost pages as clean,
// so a second Sync would succeed without the bytes. Space is not reserved
// beforehand; no space is an error of Append, or of Sync where the file system
// allocates late.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends all bytes, or returns an error after which the end of the file is
  // undefined. Bytes are not copied in this process, so a few large calls are
  // as fast as the operating system is.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Begins to write appended bytes to the device, and does not wait: for the
  // writer of a large file, whose Sync then waits only for the last bytes. It
  // makes nothing durable, and does nothing on file systems without it.
  virtual absl::Status StartWriteback() = 0;
  // Makes all appended bytes durable.
  virtual absl::Status Sync() = 0;
};

// The destructor closes the file. A file that is renamed or removed meanwhile
// can still be read.
//
// Threads: all methods from any thread.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Reads exactly `bytes` bytes from `offset` on into `to`. After an error the
  // contents of `to` are undefined.
  virtual absl::Status Read(uint64_t offset, size_t bytes, void* to) = 0;
  virtual absl::StatusOr<uint64_t> Size() = 0;
};

// An exclusive lock of a file. The destructor, and the end of the process,
// release it.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class OpenMode : uint8_t {
  kCreate = 1,  // AlreadyExists if the name exists
  kTruncate,    // created if it does not exist, else emptied
  kAppend,      // created if it does not exist
};

enum class FileKind : uint8_t {
  kRegular = 1,
  kDirectory,
  kOther,  // a symbolic link, a FIFO, a device, a socket
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The kind of the entry; does not follow a symbolic link.
  virtual absl::StatusOr<FileKind> KindOf(const std::string& path) = 0;

  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Open(
      const std::string& path, OpenMode mode) = 0;

  // Regular files only, here and below: FailedPrecondition for a device or a
  // FIFO, without waiting.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(
      const std::string& path) = 0;

  // At most `bytes` from `offset`; fewer only at the end of the file.
  virtual absl::StatusOr<std::string> Read(const std::string& path,
                                           uint64_t offset, size_t bytes) = 0;
  virtual absl::StatusOr<uint64_t> Size(const std::string& path) = 0;

  // The parent must exist.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Names, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;

  // Renames a file or directory. Atomically replaces an existing file `to`.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // Removes a file or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;

  // Removes a directory and the files in it. Follows no symbolic link:
  // FailedPrecondition, with no change, if `path` is not a directory.
  virtual absl::Status RemoveFolder(const std::string& path);

  // Locks `path`, which is created if it does not exist, and replaces its
  // contents by `holder`: who locks it, for people. Does not wait:
  // FailedPrecondition if it is locked, also by this process, with the text of
  // the holder. Not durable.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path, absl::string_view holder) = 0;
};

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<FileKind> KindOf(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     OpenMode mode) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(
      const std::string& path) override;
  absl::StatusOr<std::string> Read(const std::string& path, uint64_t offset,
                                   size_t bytes) override;
  absl::StatusOr<uint64_t> Size(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveFolder(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path, absl::string_view holder) override;
};

// --- In terms of FileSystem --------------------------------------------------

absl::StatusOr<std::string> ReadWhole(FileSystem* files,
                                      const std::string& path);

// Publishes a file for other processes: they see it only complete. Not durable.
// Publishing is the last action, because a reader may then remove the file and
// its directory.
//
// Writes to a new file PATH.new (or PATH.new1, ...) in the same directory.
// Follows no symbolic link and removes only files that it created, since other
// users may be able to create names in the directory. FailedPrecondition if
// `path` exists and is not a regular file: renaming would replace a device, a
// FIFO or a link.
absl::Status PublishFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes);

// Atomically replaces `path`: after a crash it has the old bytes or the new
// ones, and after OK the new ones durably. Uses a temporary file as PublishFile
// does, with the same error.
absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILE_SYSTEM_H_

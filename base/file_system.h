// Files: a seam with the disk behind it, or a memory that forgets.
//
// What was written is durable only when it was synced: a file's bytes by
// WritableFile::Sync, the names in a directory (of what was created, renamed or
// removed there) by SyncDirectory. Whoever makes promises tests against the
// memory (tests/support/memory_file_system.h), which loses the rest at a crash.
//
// Threads: all methods from any thread; a WritableFile is one caller's own.
// Errors:  NotFound, AlreadyExists, FailedPrecondition (a directory that is not
//          empty, or not a directory, or is one where a file is meant),
//          PermissionDenied, ResourceExhausted (no space), else Unknown or what
//          absl::ErrnoToStatus says. Messages name the path.

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

// Closed by its destructor, which drops nothing that was appended and promises
// nothing that was not synced.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // All of it, or an error after which the end of the file is undefined.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Durable from here on.
  virtual absl::Status Sync() = 0;
};

enum class OpenMode : uint8_t {
  kCreate = 1,  // AlreadyExists if there is such a name
  kTruncate,    // made if it does not exist, emptied if it does
  kAppend,      // made if it does not exist
};

enum class FileKind : uint8_t {
  kRegular = 1,
  kDirectory,
  kOther,  // a symbolic link, a FIFO, a device, a socket
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // What the name stands for; a symbolic link is not followed.
  virtual absl::StatusOr<FileKind> KindOf(const std::string& path) = 0;

  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Open(
      const std::string& path, OpenMode mode) = 0;

  // At most `bytes` from `offset`; less only at the end of the file.
  virtual absl::StatusOr<std::string> Read(const std::string& path,
                                           uint64_t offset, size_t bytes) = 0;
  virtual absl::StatusOr<uint64_t> Size(const std::string& path) = 0;

  // The parent must exist.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Names, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;

  // Files and directories. An existing file `to` is replaced in one instant.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  // A file, or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;
};

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<FileKind> KindOf(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     OpenMode mode) override;
  absl::StatusOr<std::string> Read(const std::string& path, uint64_t offset,
                                   size_t bytes) override;
  absl::StatusOr<uint64_t> Size(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
};

// --- In terms of the seam ---------------------------------------------------

absl::StatusOr<std::string> ReadWhole(FileSystem* files,
                                      const std::string& path);

// Puts a file there for others to read: whole once it is there, but not safe
// from a crash. Nothing is done after that: who has read it may take away even
// its directory.
//
// Writes beside it, in a new file PATH.new (or PATH.new1, ...), follows no
// symbolic link there and removes nothing that it has not made: others may be
// able to make names in the folder. FailedPrecondition if `path`
// is there and is not a regular file: renaming would take the place of a
// device, a FIFO or a link.
absl::Status PublishFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes);

// `path` holds the old bytes or the new ones, whatever happens meanwhile, and
// the new ones for good after OK. Writes beside it as PublishFile does, with
// the same error.
absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILE_SYSTEM_H_

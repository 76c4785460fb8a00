// A file system whose operations fail, on top of any other.
//
//   FaultyFileSystem files(&memory);
//   files.FailFrom(7, absl::AbortedError("crashed"));  // all from the 7th on
//   files.SetSpace(100);                               // then no space
//
// Counted are the operations that change files: Open, MakeDirectory,
// SyncDirectory, Rename, Remove and Lock, and Append, StartWriteback and Sync
// of files opened through it. For crash points: run once and count, then run
// again and fail from each operation on, and crash the file system below.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
#define LOCKSTEP_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/file_system.h"
#include "base/mutex.h"

namespace lockstep {

class FaultyFileSystem final : public FileSystem {
 public:
  // `below` must outlive this and the files opened through it.
  explicit FaultyFileSystem(FileSystem* below) : below_(below) {}

  // Operation number `first` (from 1) and all later ones fail with `error` and
  // change nothing.
  void FailFrom(int first, absl::Status error);
  // Only operation number `operation` fails.
  void FailAt(int operation, absl::Status error);
  // Reads of opened files fail with `error` from now on; OK ends it.
  void FailReads(absl::Status error);
  // From now on files take `bytes` more bytes: the Append that does not fit
  // writes what fits and returns ResourceExhausted.
  void SetSpace(uint64_t bytes);

  int operations() const;
  uint64_t bytes_read() const;  // by Read of opened files

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
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path, absl::string_view holder) override;

 private:
  class File;
  class OpenedFile;

  // Counts an operation; returns its injected error.
  absl::Status Count();
  absl::Status CountRead(uint64_t bytes);
  // How many of `bytes` bytes fit.
  size_t TakeSpace(size_t bytes);

  FileSystem* const below_;
  mutable Mutex mutex_;
  int operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
  int first_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int>::max();
  int last_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int>::max();
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status read_error_ ABSL_GUARDED_BY(mutex_);
  uint64_t space_ ABSL_GUARDED_BY(mutex_) =
      std::numeric_limits<uint64_t>::max();
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_

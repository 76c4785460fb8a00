// Files in memory, whose Crash() loses what was not synced. Paths are absolute;
// the root exists and is durable. Wrap it in tests/support/faulty_file_system.h
// for errors and for crashes at a given operation.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_TESTS_SUPPORT_MEMORY_FILE_SYSTEM_H_
#define LOCKSTEP_TESTS_SUPPORT_MEMORY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/file_system.h"
#include "base/mutex.h"

namespace lockstep {

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();

  // Simulates a crash and a restart that loses all that POSIX lets it lose:
  // appended bytes that were not synced, and changes of names in directories
  // that were not synced. Files that were open fail from then on, with Aborted.
  void Crash();

  // A crash that keeps some of it, as `seed` says: of each file that was not
  // synced a beginning of any length, with blocks of zeros where its data did
  // not reach the disk, or its old bytes; of each directory its old names or
  // its new ones.
  void CrashPartly(uint64_t seed);

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
  // A crash releases all locks.
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path, absl::string_view holder) override;

 private:
  class File;
  class HeldLock;
  class OpenedFile;
  using Random = std::mt19937_64;
  // A file or a directory, as programs see it and as it is on disk.
  struct Node {
    bool is_directory = false;
    std::string bytes, durable_bytes;
    int locked_in = 0;  // the incarnation; 0: it is not locked
    std::map<std::string, std::shared_ptr<Node>> names, durable_names;
  };
  // A resolved path: a directory, and a name in it that may not exist.
  struct Place {
    Node* parent = nullptr;
    std::string name;
  };

  absl::StatusOr<Place> FindPlace(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> FindNode(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> FindFile(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Node>> FindDirectory(
      const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status Crashed();
  static void Forget(Node* node);
  static void KeepSome(Node* node, Random* random);

  mutable Mutex mutex_;
  const std::shared_ptr<Node> root_;
  int incarnations_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_MEMORY_FILE_SYSTEM_H_

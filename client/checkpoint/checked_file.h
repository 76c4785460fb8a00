// A file whose blocks are compared with their hashes when they are read.
//
// Threads: one caller at a time.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_CHECKED_FILE_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_CHECKED_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/content_hash.h"

namespace lockstep::checkpoint {

// Which blocks are compared.
enum class HashCheck : uint8_t {
  kFull = 1,  // each one that a read touches: it is read whole
  kSampled,   // block 0, and one in `sample_one_in` of the others
  kOff,       // none; the size is still compared if hashes are given
};

struct ReadChecks {
  HashCheck check = HashCheck::kFull;
  // What the writer returned. Required unless `check` is kOff.
  std::optional<ContentHashes> expected;
  // The seed decides which blocks are sampled; let it differ from load to load.
  uint64_t sample_one_in = 16;
  uint64_t sample_seed = 0;
};

// A block whose bytes are not those that were written.
struct BadBlock {
  uint64_t index = 0;
  uint64_t begin = 0, end = 0;  // in the file
  std::string text;             // index, range, both hashes
};

class CheckedFile {
 public:
  // DataLoss if the file's size is not the expected one. InvalidArgument if
  // hashes are missing or do not fit their sizes.
  static absl::StatusOr<CheckedFile> Open(FileSystem* files,
                                          const std::string& path,
                                          ReadChecks checks);

  uint64_t bytes() const { return bytes_; }

  // Reads exactly `bytes` bytes from `offset` on. DataLoss names a block with
  // another hash, and a file that has become shorter. Memory: one block beside
  // the caller's.
  absl::Status Read(uint64_t offset, uint64_t bytes, void* to);

  // Reads the whole file and returns the blocks with other hashes, in order.
  // DataLoss if the blocks are right and the hash of the whole file is not.
  // FailedPrecondition without expected hashes.
  absl::StatusOr<std::vector<BadBlock>> VerifyAll();

 private:
  CheckedFile(std::unique_ptr<ReadableFile> file, uint64_t bytes,
              ReadChecks checks);

  bool IsChecked(uint64_t block) const;
  uint64_t BeginOf(uint64_t block) const;
  uint64_t EndOf(uint64_t block) const;
  // nullopt if `hash` is the expected one.
  std::optional<BadBlock> Compare(uint64_t block, uint64_t hash) const;

  absl::Status ReadUnchecked(uint64_t offset, uint64_t bytes, void* to);
  // Reads a whole block and compares it.
  absl::Status ReadBlock(uint64_t block, void* to);
  absl::Status Cache(uint64_t block);
  // The end of the unchecked blocks from `offset` on.
  uint64_t UncheckedEnd(uint64_t offset, uint64_t end) const;

  std::unique_ptr<ReadableFile> file_;
  uint64_t bytes_;
  ReadChecks checks_;
  // The last block that was read whole for a part of it: small tensors of one
  // block are read together.
  std::optional<uint64_t> cached_;
  std::string cache_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_CHECKED_FILE_H_

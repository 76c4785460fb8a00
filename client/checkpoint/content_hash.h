// Hashes of a file's bytes: one of the whole file, and one of each block.
//
//   file     XXH3 with 128 bits and seed 0, as `xxhsum -H2` prints it
//   blocks   XXH3 with 64 bits and seed 0 of each 4 MiB from the file's
//   beginning;
//            the last block may be shorter, an empty file has none
//
// A reader of a part of a file checks the blocks that it touches. The hashes
// detect corruption; they are no protection against somebody who wants to forge
// a file.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_CONTENT_HASH_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::checkpoint {

inline constexpr uint64_t kHashBlockBytes = uint64_t{4} << 20;

struct ContentHashes {
  uint64_t bytes = 0;  // of the file
  std::string file;    // 32 lower case hexadecimal digits
  uint64_t block_bytes = kHashBlockBytes;
  std::vector<uint64_t> blocks;
  bool operator==(const ContentHashes&) const = default;
};

// How many blocks a file of `bytes` bytes has.
constexpr uint64_t BlockCount(uint64_t bytes, uint64_t block_bytes) {
  return bytes / block_bytes + (bytes % block_bytes != 0 ? 1 : 0);
}

// The hash of one block.
uint64_t HashBlock(absl::string_view bytes);

// HashBlock of bytes in parts of any size. One caller.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();

  void Update(absl::string_view bytes);

  // The hash of all bytes so far. Begins a new block.
  uint64_t Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Hashes a file while it is written or read from its beginning to its end, in
// parts of any size. One caller.
class ContentHasher {
 public:
  // Another `block_bytes` than 4 MiB is for tests.
  explicit ContentHasher(uint64_t block_bytes = kHashBlockBytes);
  ~ContentHasher();

  void Update(absl::string_view bytes);

  // The hashes of all bytes so far; more may follow.
  ContentHashes hashes() const;

 private:
  struct States;
  const std::unique_ptr<States> states_;
  ContentHashes finished_;  // blocks that are complete
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_CONTENT_HASH_H_

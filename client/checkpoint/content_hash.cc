#include "client/checkpoint/content_hash.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "client/checkpoint/hash_loops.h"
#include "client/checkpoint/hash_loops_xxh3.h"

namespace lockstep::checkpoint {
namespace {

// The second of two passes over a part reads it from the cache.
constexpr size_t kPartBytes = 64 << 10;

}  // namespace

struct ContentHasher::States {
  XXH3_state_t file;
  XXH3_state_t block;  // of the block in progress
};

const HashLoops& BaselineHashLoops() { return kLoops; }

uint64_t HashBlock(absl::string_view bytes) {
  return BestHashLoops().hash_64(bytes.data(), bytes.size());
}

struct BlockHasher::State {
  XXH3_state_t block;
};

BlockHasher::BlockHasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->block);
}

BlockHasher::~BlockHasher() = default;

void BlockHasher::Update(absl::string_view bytes) {
  BestHashLoops().update_64(&state_->block, bytes.data(), bytes.size());
}

uint64_t BlockHasher::Finish() {
  const uint64_t hash = XXH3_64bits_digest(&state_->block);
  XXH3_64bits_reset(&state_->block);
  return hash;
}

ContentHasher::ContentHasher(uint64_t block_bytes)
    : states_(std::make_unique<States>()) {
  Check(block_bytes > 0, "a block has bytes");
  finished_.block_bytes = block_bytes;
  XXH3_128bits_reset(&states_->file);
  XXH3_64bits_reset(&states_->block);
}

ContentHasher::~ContentHasher() = default;

void ContentHasher::Update(absl::string_view bytes) {
  const HashLoops& loops = BestHashLoops();
  while (!bytes.empty()) {
    const uint64_t left_in_block =
        finished_.block_bytes - finished_.bytes % finished_.block_bytes;
    const absl::string_view part =
        bytes.substr(0, std::min<uint64_t>(kPartBytes, left_in_block));
    loops.update_128(&states_->file, part.data(), part.size());
    loops.update_64(&states_->block, part.data(), part.size());
    finished_.bytes += part.size();
    bytes.remove_prefix(part.size());
    if (part.size() == left_in_block) {
      finished_.blocks.push_back(XXH3_64bits_digest(&states_->block));
      XXH3_64bits_reset(&states_->block);
    }
  }
}

ContentHashes ContentHasher::hashes() const {
  ContentHashes hashes = finished_;
  const XXH128_hash_t file = XXH3_128bits_digest(&states_->file);
  hashes.file = absl::StrFormat("%016x%016x", file.high64, file.low64);
  if (hashes.bytes % hashes.block_bytes != 0) {
    hashes.blocks.push_back(XXH3_64bits_digest(&states_->block));
  }
  return hashes;
}

}  // namespace lockstep::checkpoint

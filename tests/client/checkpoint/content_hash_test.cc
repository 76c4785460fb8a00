#include "client/checkpoint/content_hash.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "client/checkpoint/hash_loops.h"
#include "gtest/gtest.h"

namespace lockstep::checkpoint {
namespace {

std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  return text;
}

ContentHashes HashOf(const std::string& text, uint64_t block_bytes,
                     size_t part_bytes) {
  ContentHasher hasher(block_bytes);
  for (size_t at = 0; at < text.size(); at += part_bytes) {
    hasher.Update(absl::string_view(text).substr(at, part_bytes));
  }
  return hasher.hashes();
}

// The values of Python's xxhash.
TEST(ContentHashTest, IsXxh3WithSeed0) {
  const ContentHashes empty = ContentHasher().hashes();
  EXPECT_EQ(empty.file, "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(empty.bytes, 0u);
  EXPECT_TRUE(empty.blocks.empty());
  const ContentHashes abc = HashOf("abc", kHashBlockBytes, 3);
  EXPECT_EQ(abc.file, "06b05ab6733a618578af5f94892f3950");
  ASSERT_EQ(abc.blocks.size(), 1u);
  EXPECT_EQ(abc.blocks[0], 0x78af5f94892f3950u);
}

TEST(ContentHashTest, BlocksAreHashedByThemselves) {
  const std::string text = Pattern(1000);
  const ContentHashes hashes = HashOf(text, 256, 1000);
  ASSERT_EQ(hashes.blocks.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(hashes.blocks[i],
              HashBlock(absl::string_view(text).substr(i * 256, 256)));
  }
  EXPECT_EQ(hashes.bytes, 1000u);
  EXPECT_EQ(hashes.block_bytes, 256u);
  EXPECT_EQ(HashOf(Pattern(1024), 256, 1024).blocks.size(), 4u);
}

TEST(ContentHashTest, ABlockInPartsHasTheSameHash) {
  const std::string text = Pattern(300'000);
  BlockHasher hasher;
  for (const size_t size : {0u, 1u, 1000u, 300'000u}) {
    for (const size_t part : {1u, 999u, 65'536u}) {
      const absl::string_view block = absl::string_view(text).substr(0, size);
      for (size_t at = 0; at < size; at += part) {
        hasher.Update(block.substr(at, part));
      }
      EXPECT_EQ(hasher.Finish(), HashBlock(block)) << size << " by " << part;
    }
  }
}

TEST(ContentHashTest, PartsOfAnySizeGiveTheSameHashes) {
  const std::string text = Pattern(300'000);
  for (const uint64_t block_bytes : {1000u, 65'536u, 100'000u, 300'000u}) {
    const ContentHashes whole = HashOf(text, block_bytes, text.size());
    EXPECT_EQ(whole.blocks.size(), BlockCount(text.size(), block_bytes));
    for (const size_t part : {7u, 1000u, 65'536u, 70'000u, 299'999u}) {
      EXPECT_EQ(HashOf(text, block_bytes, part), whole)
          << part << " of " << block_bytes;
    }
  }
}

TEST(ContentHashTest, HashesOfABeginningDoNotEndIt) {
  const std::string text = Pattern(500);
  ContentHasher hasher(128);
  hasher.Update(absl::string_view(text).substr(0, 200));
  EXPECT_EQ(hasher.hashes(), HashOf(text.substr(0, 200), 128, 200));
  hasher.Update(absl::string_view(text).substr(200));
  EXPECT_EQ(hasher.hashes(), HashOf(text, 128, 500));
}

TEST(ContentHashTest, OneFlippedBitChangesTheFileAndItsBlockOnly) {
  std::string text = Pattern(1000);
  const ContentHashes before = HashOf(text, 256, 1000);
  text[600] ^= 16;
  const ContentHashes after = HashOf(text, 256, 1000);
  EXPECT_NE(after.file, before.file);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(after.blocks[i] == before.blocks[i], i != 2) << i;
  }
}

// On a CPU without AVX2 both are the baseline.
TEST(ContentHashTest, AllCpusHaveTheSameHashes) {
  const HashLoops& baseline = BaselineHashLoops();
  const HashLoops& best = BestHashLoops();
  const std::string text = Pattern(10'000);
  for (size_t size = 0; size < text.size(); size += 1 + size / 7) {
    ASSERT_EQ(best.hash_64(text.data() + 1, size),
              baseline.hash_64(text.data() + 1, size))
        << size;
  }
}

TEST(ContentHashTest, BlocksAreCountedUp) {
  EXPECT_EQ(BlockCount(0, 4), 0u);
  EXPECT_EQ(BlockCount(1, 4), 1u);
  EXPECT_EQ(BlockCount(4, 4), 1u);
  EXPECT_EQ(BlockCount(5, 4), 2u);
  EXPECT_EQ(BlockCount(~uint64_t{0}, 2), uint64_t{1} << 63);
}

}  // namespace
}  // namespace lockstep::checkpoint

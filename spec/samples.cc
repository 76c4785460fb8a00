#include "lockstep/samples.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace lockstep {
namespace {

// Enough rounds to make the order look random even for a few samples: a round
// mixes only half of the bits.
constexpr int kRounds = 12;

// The finaliser of SplitMix64: every bit of the input affects every bit of the
// output.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A permutation of [0, 4^half_bits).
struct Feistel {
  uint64_t key;
  int half_bits;

  uint64_t operator()(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      left ^= Mix(Mix(key + round) ^ right) & mask;
      std::swap(left, right);
    }
    return left << half_bits | right;
  }
};

// A permutation of [0, size): permutes a value outside again until it is
// inside. This terminates, because the walk is on the cycle of `value`.
uint64_t Permuted(uint64_t value, uint64_t size, uint64_t key) {
  const int bits = std::bit_width(size - 1);
  const Feistel feistel{.key = key, .half_bits = (bits + 1) / 2};
  do {
    value = feistel(value);
  } while (value >= size);
  return value;
}

void CheckStream(const SampleStream& stream) {
  Check(stream.dataset_size >= 1, "a sample stream needs a data set");
  Check(stream.global_batch >= 1, "a sample stream needs a global batch");
}

std::vector<int64_t> SamplesIn(const SampleStream& stream, int64_t begin,
                               int64_t end) {
  std::vector<int64_t> samples;
  samples.reserve(static_cast<size_t>(end - begin));
  for (int64_t position = begin; position < end; ++position) {
    samples.push_back(SampleAt(stream, position));
  }
  return samples;
}

}  // namespace

int64_t SampleAt(const SampleStream& stream, int64_t position) {
  CheckStream(stream);
  Check(position >= 0, "a position of a sample stream is not negative");
  const uint64_t pass = static_cast<uint64_t>(position / stream.dataset_size);
  const uint64_t index = static_cast<uint64_t>(position % stream.dataset_size);
  const uint64_t key = Mix(Mix(stream.seed) ^ pass);
  return static_cast<int64_t>(
      Permuted(index, static_cast<uint64_t>(stream.dataset_size), key));
}

std::vector<int64_t> SamplesOfStep(const SampleStream& stream, int64_t step) {
  return ShareOfStep(stream, step, 0, 1);
}

std::vector<int64_t> ShareOfStep(const SampleStream& stream, int64_t step,
                                 int rank, int world_size) {
  CheckStream(stream);
  Check(step >= 0, "a step is not negative");
  Check(rank >= 0 && rank < world_size, "rank is outside the world");
  const int64_t share = stream.global_batch / world_size;
  const int64_t larger = stream.global_batch % world_size;
  const int64_t begin = step * stream.global_batch + rank * share +
                        (rank < larger ? rank : larger);
  return SamplesIn(stream, begin, begin + share + (rank < larger ? 1 : 0));
}

int64_t ShardSize(const EpochShard& shard) {
  Check(shard.dataset_size >= 1, "an epoch needs a data set");
  Check(shard.rank >= 0 && shard.rank < shard.world_size,
        "rank is outside the world");
  const int64_t share = shard.dataset_size / shard.world_size;
  const int64_t rest = shard.dataset_size % shard.world_size;
  switch (shard.uneven) {
    case UnevenEpoch::kKeep: return share + (shard.rank < rest ? 1 : 0);
    case UnevenEpoch::kRepeat: return share + (rest > 0 ? 1 : 0);
    case UnevenEpoch::kDrop: return share;
  }
  Fatal("no way to divide an epoch has this number");
}

int64_t ShardSampleAt(const EpochShard& shard, int64_t index) {
  Check(shard.epoch >= 0, "an epoch is not negative");
  Check(index >= 0 && index < ShardSize(shard), "index is outside the shard");
  const int64_t position =
      (shard.rank + index * shard.world_size) % shard.dataset_size;
  if (!shard.shuffle) return position;
  return SampleAt(
      SampleStream{.seed = shard.seed, .dataset_size = shard.dataset_size},
      shard.epoch * shard.dataset_size + position);
}

std::vector<int64_t> ShardSamples(const EpochShard& shard) {
  std::vector<int64_t> samples(static_cast<size_t>(ShardSize(shard)));
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = ShardSampleAt(shard, static_cast<int64_t>(i));
  }
  return samples;
}

}  // namespace lockstep

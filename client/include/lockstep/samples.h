// Selects the samples of each step: a function of (seed, step) only.
//
// Training runs over the data set in passes. Each pass is a different
// permutation, derived from the seed. Rank and world size only divide a step's
// range, so a job that shrinks, grows or resumes uses every sample exactly once
// per pass.
//
//   pass 0: permutation 0                pass 1: permutation 1
//   |step 0 |step 1 |step 2 |step 3 ... |
//
// Threads: pure functions.

#ifndef LOCKSTEP_SAMPLES_H_
#define LOCKSTEP_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "lockstep/export.h"

namespace lockstep {

struct SampleStream {
  uint64_t seed = 0;
  int64_t dataset_size = 0;  // at least 1
  int64_t global_batch = 1;  // at least 1; may exceed dataset_size
};

// Returns the sample, in [0, dataset_size), at a position of the endless
// stream. Constant memory and, on average, constant time: a keyed permutation
// (a Feistel network over the next even number of bits, iterated until the
// result is in range).
LOCKSTEP_EXPORT int64_t SampleAt(const SampleStream& stream, int64_t position);

// Returns the global_batch samples of a step, in order.
LOCKSTEP_EXPORT std::vector<int64_t> SamplesOfStep(const SampleStream& stream,
                                                   int64_t step);

// Returns the rank's contiguous part of a step's samples. The parts of all
// ranks cover the step without overlap; their sizes differ by at most one, and
// lower ranks have the larger parts.
LOCKSTEP_EXPORT std::vector<int64_t> ShareOfStep(const SampleStream& stream,
                                                 int64_t step, int rank,
                                                 int world_size);

// A rank's part of one epoch, for samplers that go through the data set epoch
// by epoch: every world_size-th sample of the epoch's order, from the rank-th.
//
//   order of the epoch   7 2 5 0 4 1 6 3     8 samples, 3 ranks
//   rank                 0 1 2 0 1 2 0 1
//
// The order is that of the pass `epoch` of a SampleStream with this seed, or 0,
// 1, 2, ... without `shuffle`.
enum class UnevenEpoch : uint8_t {
  kKeep,    // sizes differ by one; lower ranks have one more
  kRepeat,  // as many as the largest: continues with the epoch's first samples
  kDrop,    // as many as the smallest: the epoch's last samples are left out
};

struct EpochShard {
  uint64_t seed = 0;
  int64_t epoch = 0;         // at least 0
  int64_t dataset_size = 0;  // at least 1
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  UnevenEpoch uneven = UnevenEpoch::kKeep;
};

// The number of samples of the shard.
LOCKSTEP_EXPORT int64_t ShardSize(const EpochShard& shard);

// Returns the sample at an index in [0, ShardSize(shard)). Constant memory, as
// SampleAt.
LOCKSTEP_EXPORT int64_t ShardSampleAt(const EpochShard& shard, int64_t index);

// Returns all samples of the shard, in order.
LOCKSTEP_EXPORT std::vector<int64_t> ShardSamples(const EpochShard& shard);

}  // namespace lockstep

#endif  // LOCKSTEP_SAMPLES_H_

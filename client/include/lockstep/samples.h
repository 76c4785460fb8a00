// Which samples a step trains on: a function of (seed, step) alone.
//
// The data set is walked in passes; each pass is a permutation of its own,
// drawn from the seed. Rank and world size only cut a step's range, so a job
// that shrinks, grows or resumes sees every sample exactly once per pass.
//
//   pass 0: permutation 0                pass 1: permutation 1
//   |step 0 |step 1 |step 2 |step 3 ... |
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_SAMPLES_H_
#define LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "lockstep/export.h"

namespace lockstep {

struct SampleStream {
  uint64_t seed = 0;
  int64_t dataset_size = 0;  // at least 1
  int64_t global_batch = 1;  // at least 1; may exceed dataset_size
};

// The sample at a position of the endless stream, in [0, dataset_size). Takes
// constant memory and, on average, constant time: a keyed permutation (a
// Feistel network over the next even number of bits, walked until inside the
// range).
LOCKSTEP_EXPORT int64_t SampleAt(const SampleStream& stream, int64_t position);

// The global_batch samples of a step, in order.
LOCKSTEP_EXPORT std::vector<int64_t> SamplesOfStep(const SampleStream& stream,
                                                   int64_t step);

// Rank's contiguous part of a step's samples. Parts differ in size by one at
// most, lower ranks hold the larger ones, and together they are the whole.
LOCKSTEP_EXPORT std::vector<int64_t> ShareOfStep(const SampleStream& stream,
                                                 int64_t step, int rank,
                                                 int world_size);

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_SAMPLES_H_

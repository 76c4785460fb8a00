// What a training loop needs beside its tensors to go on from a checkpoint.

#ifndef LOCKSTEP_TRAINING_STATE_H_
#define LOCKSTEP_TRAINING_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep {

// The next sample of an endless stream (samples.h).
struct SampleCursor {
  uint64_t seed = 0;
  int64_t dataset_size = 1;
  int64_t position = 0;
  bool operator==(const SampleCursor&) const = default;
};

// Equal on all ranks.
struct TrainingState {
  int64_t step = 0;   // the next one: as many are done
  int64_t epoch = 0;  // over the data set
  double learning_rate = 0;
  std::map<std::string, std::string> metadata;
  std::optional<SampleCursor> samples;
  bool operator==(const TrainingState&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TRAINING_STATE_H_

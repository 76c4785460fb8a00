// sharding_meta.json and training_state.json of boostr's checkpoints.
//
// Both have a version, 1 if it is missing, or 2; the fields are the same. There
// are two schemas of sharding_meta.json:
//
//   {"version", "world_size", "strategy", "split_dims": {NAME: DIM}}
//   {"version", "world_size", "shards": [{"world_size", "rank", "owned_params",
//                                         "strategy", "split_dims"}]}
//
// Rank 0 writes the file, so only its own entry in "shards" is real; others are
// placeholders, and are not read.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SEED_SHARDING_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SEED_SHARDING_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/training_state.h"

namespace lockstep::checkpoint {

enum class SeedStrategy : uint8_t {
  kReplicated = 1,
  kZeroPartitioned,  // each tensor is whole on some of the ranks
  kTensorParallel,   // tensors of `split_dims` are divided over all ranks
};

struct SeedSharding {
  int ranks = 1;
  SeedStrategy strategy = SeedStrategy::kReplicated;
  std::map<std::string, int64_t> split_dims;  // by the parameter's name
  bool operator==(const SeedSharding&) const = default;
};

// InvalidArgument names the field: no JSON, a field that is missing or of
// another kind, a world size that is not 1 to 1,000,000, an unknown strategy,
// TensorParallel without split_dims. Unimplemented for a newer version.
absl::StatusOr<SeedSharding> ParseSeedSharding(absl::string_view text);
// The same, for {"version", "step", "epoch", "learning_rate", "metadata"}.
absl::StatusOr<TrainingState> ParseSeedTraining(absl::string_view text);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SEED_SHARDING_H_

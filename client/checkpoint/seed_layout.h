// Checkpoints of boostr: one folder, or one for each rank.
//
//   DIR/model.safetensors           DIR/sharding_meta.json
//   DIR/optimizer.safetensors       DIR/rank_0/model.safetensors
//   DIR/training_state.json         DIR/rank_0/optimizer.safetensors ("w.m")
//                                   DIR/rank_0/training_state.json
//                                   DIR/rank_1/...
//
//   Replicated        all ranks have all tensors: rank 0's are read
//   ZeroPartitioned   a rank has some tensors, whole: the highest rank's that
//                     has one is read
//   TensorParallel    tensors of split_dims are divided over all ranks, in
//                     their order; of others rank 0's are read
//
// The state "w.m" of an optimizer is divided as "w" is, if both have the same
// shape on each rank.
//
// boostr writes "F32" as the dtype of each tensor, whatever it is. This is not
// in the files and cannot be repaired here. It also writes in place: a save
// that was interrupted is found only if it changed a header or a step.
//
// Threads: the caller's, which blocks until the headers are read.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SEED_LAYOUT_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SEED_LAYOUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/foreign.h"

namespace lockstep::checkpoint {

inline constexpr char kSeedShardingName[] = "sharding_meta.json";

// Reads the headers of all files. The manifest has the step of
// training_state.json, and a mesh data=N, for TensorParallel model=N. Folders
// of ranks that are not in the world size are left out.
//
// NotFound: the folder has no such checkpoint, or ranks are missing, which are
// named. InvalidArgument names the file, and the tensor: files that are not as
// above, a tensor that some ranks do not have or have with another shape or
// dtype, a tensor of the model and of the optimizer with one name, a name of
// split_dims that no rank has, ranks that have other steps. DataLoss and
// Unimplemented as SafetensorsReader.
absl::StatusOr<ForeignCheckpoint> ReadSeedLayout(FileSystem* files,
                                                 const std::string& folder);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SEED_LAYOUT_H_

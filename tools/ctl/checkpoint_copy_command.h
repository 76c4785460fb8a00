// `lockstepctl checkpoint consolidate` and `import`: from checkpoints to files
// of other programs, and back, without a coordinator.
//
// Both read the layout of boostr's checkpoints, too (seed_layout.h); it has no
// hashes to compare. Progress is printed to standard error if a command takes
// more than some seconds. Each function returns the exit code: 0 ok, 1 refused.

#ifndef LOCKSTEP_TOOLS_CTL_CHECKPOINT_COPY_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_CHECKPOINT_COPY_COMMAND_H_

#include <cstdint>
#include <string>

namespace lockstep::ctl {

struct CopyCheckpointOptions {
  // The step of the checkpoint; below 0: of the newest, or of the source.
  int64_t step = -1;
  std::string check = "full";  // consolidate: or "sampled", "off"
};

// Writes all tensors of a checkpoint, whole, into the new file `target`, or
// into model.safetensors in it if it is a directory.
int CheckpointConsolidate(const std::string& path, const std::string& target,
                          const CopyCheckpointOptions& options);

// Commits a checkpoint of one rank in `directory`/checkpoints, with the tensors
// of a safetensors file.
int CheckpointImport(const std::string& path, const std::string& directory,
                     const CopyCheckpointOptions& options);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CHECKPOINT_COPY_COMMAND_H_

// `lockstepctl checkpoint`: shows, verifies and prunes checkpoints on a disk,
// without a coordinator.
//
// `path` is the folder of a checkpoint, a directory of such folders, or one
// that has them in its folder "checkpoints". Each function returns the exit
// code: 0 ok, 1 refused.

#ifndef LOCKSTEP_TOOLS_CTL_CHECKPOINT_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_CHECKPOINT_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/checkpoint/directory.h"

namespace lockstep::ctl {

// Prints a line for each committed checkpoint, oldest first. One whose manifest
// is damaged is listed as that, and the exit code is 1.
int CheckpointList(const std::string& path, bool json);

// Prints what a checkpoint has: its training state, its tensors and files. As
// JSON: its manifest. `step` here and below: of the newest of that step; below
// 0, the newest.
int CheckpointShow(const std::string& path, int64_t step, bool json);

// Verifies a checkpoint, or all. Prints each file that is wrong, and returns 1
// if there is one.
int CheckpointVerify(const std::string& path, int64_t step);
int CheckpointVerifyAll(const std::string& path);

struct PruneOptions {
  checkpoint::Retention retention;
  bool dry_run = false;
};

// Removes checkpoints that are not kept, attempts that were given up, and what
// interrupted removals have left. `path` is no single checkpoint. The newest
// checkpoint stays, so a running job may save meanwhile.
int CheckpointPrune(const std::string& path, const PruneOptions& options);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CHECKPOINT_COMMAND_H_

// A training whose checkpoints are in a folder, and the comparison of a resumed
// training with one that nothing interrupted.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_SAVED_RUN_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_SAVED_RUN_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "lockstep/mesh.h"

namespace lockstep::digits {

// What the newest checkpoint says of the training that wrote it.
struct SavedRun {
  int64_t step = 0;
  Mesh mesh;
  int leaves = 0;
};

// nullopt if there is no checkpoint in flags.state, or no such folder.
absl::StatusOr<std::optional<SavedRun>> FindSavedRun(const Flags& flags);

// FailedPrecondition if the flags do not fit what is in the folder: a new
// training wants a folder without checkpoints, a resumed one wants one that it
// can continue.
absl::Status CheckSavedRun(const Flags& flags,
                           const std::optional<SavedRun>& saved);

// Trains without interruption, on the mesh of the saved training, and compares
// with the weights of every worker of the resumed one, in `files`. Prints the
// result. Equal means bit for bit, unless the meshes differ and sums depend on
// them (without leaves): then within kLargestDifference. Returns 0, 1 for a
// difference, or the exit code of the training.
int CompareWithUninterrupted(const Flags& flags, const SavedRun& saved,
                             const JobFiles& files);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_SAVED_RUN_H_

// What one rank has written of an attempt: its files with their hashes, and
// which slices are in them. A small file beside the tensors, until one member
// has joined the parts of all ranks into the manifest.
//
//   step-20-epoch-3-attempt-7/
//     rank-0.safetensors  rank-0.part.json ┐
//     rank-1.safetensors  rank-1.part.json ┴▶ MANIFEST.json
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_STATE_PART_H_
#define LOCKSTEP_CLIENT_STATE_PART_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/checkpoint/manifest.h"
#include "client/state/checkpoint_job.h"
#include "lockstep/checkpoint_name.h"
#include "lockstep/training_state.h"

namespace lockstep::state {

struct RankPart {
  int rank = 0;
  CheckpointName attempt;
  TrainingState training;  // as this rank gave it to Save
  // Tensors of which this rank has written slices, and those slices only.
  std::vector<checkpoint::ManifestTensor> tensors;
  std::vector<checkpoint::ManifestFile> files;
  bool operator==(const RankPart&) const = default;
};

// "rank-3.part.json"
std::string PartFileName(int rank);

// The text of a part, which ends with its hash. The training state must be
// valid (manifest.h).
struct PartText {
  std::string text;
  std::string hash;  // 32 hexadecimal digits, which are also in the text
};
PartText FormatPart(const RankPart& part);

// DataLoss if the text does not end with `hash`, or has another one;
// InvalidArgument for anything else that is not a part.
absl::StatusOr<RankPart> ParsePart(absl::string_view text,
                                   const std::string& hash);

// The manifest of an attempt from the parts of all ranks, by rank.
// InvalidArgument names the rank: a part of another rank or attempt, another
// training state than that of rank 0, a tensor that the job does not have; else
// the errors of Validate (manifest.h).
absl::StatusOr<checkpoint::Manifest> JoinParts(
    const CheckpointJob& job, const CheckpointName& attempt,
    const std::vector<RankPart>& parts);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_PART_H_

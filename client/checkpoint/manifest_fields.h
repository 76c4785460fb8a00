// The fields that the JSON of a manifest and that of a rank's part
// (client/state/part.h) share, and the hash at the end of both:
//
//   {...,
//   "xxh3":"0123456789abcdef0123456789abcdef"}
//
// It is the hash of all bytes before its first digit. For sources that include
// nlohmann-json; no public header does.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_FIELDS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/strict_json.h"

namespace lockstep::checkpoint {

// The values of valid fields: an object, or a list with a line for each
// element.
std::string JsonOf(const TrainingState& training);
std::string JsonOf(const std::vector<ManifestTensor>& tensors);
std::string JsonOf(const std::vector<ManifestFile>& files);

// The fields of an object. Faults are stored in the reader's status.
void ReadTraining(ObjectReader& fields, TrainingState* training);
void ReadTensors(ObjectReader& fields, std::vector<ManifestTensor>* tensors);
void ReadFiles(ObjectReader& fields, std::vector<ManifestFile>* files);

// Adds the hash, and the end of the object, to a text without them.
std::string WithDigest(absl::string_view text);
// The hash at the end. DataLoss if there is none, or if it is not that of the
// text before it; `kind` is what the text is: "manifest".
absl::StatusOr<std::string> CheckDigest(absl::string_view text,
                                        absl::string_view kind);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_FIELDS_H_

// model.safetensors.index.json: which file has which tensor, as Hugging Face's
// tools read it beside several safetensors files.
//
//   {
//     "metadata": {"total_size": 96},
//     "weight_map": {"w": "rank-0.safetensors"}
//   }
//
// It has the tensors that are whole in one file under their own names. Slices
// are in the manifest only.
//
// Threads: any; one at a time for one folder.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_WEIGHT_INDEX_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_WEIGHT_INDEX_H_

#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "client/checkpoint/manifest.h"

namespace lockstep::checkpoint {

inline constexpr char kWeightIndexName[] = "model.safetensors.index.json";

// The text for a valid manifest, sorted by name; empty if no tensor is whole in
// one file. The same manifest gives the same bytes.
std::string FormatWeightIndex(const Manifest& manifest);

// Writes the index beside the files, durably, or replaces it. Does nothing if
// no tensor is whole. Errors are the file system's.
absl::Status WriteWeightIndex(FileSystem* files, const std::string& folder,
                              const Manifest& manifest);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_WEIGHT_INDEX_H_

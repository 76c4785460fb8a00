// Writes the tensors of a checkpoint, whole, into one safetensors file that
// other programs load.
//
// Threads: the caller's, which blocks until the file is durable.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_CONSOLIDATE_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_CONSOLIDATE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/checked_file.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/safetensors_writer.h"
#include "client/checkpoint/whole_tensors.h"

namespace lockstep::checkpoint {

// The name that other programs look for.
inline constexpr char kConsolidatedName[] = "model.safetensors";

struct ConsolidateOptions {
  HashCheck check = HashCheck::kFull;
  uint64_t sample_seed = 0;
  // The checkpoint's files that are open at a time. If a tensor's slices are in
  // more files and divide its rows, their blocks are read several times.
  size_t open_files_max = 64;
  CopyProgress on_progress;
};

// Creates `target` with every tensor of the checkpoint in `folder` under its
// own name: the tensors of one element size sorted by name, and the training
// state as metadata (training_texts.h). After OK the file and its name are
// durable.
//
// Memory: a piece of kPieceBytes, and that of CheckpointReader; never a whole
// tensor that is larger.
//
// AlreadyExists if `target` exists. After any other error there is no such
// file, unless it cannot be removed (see WriteSafetensors).
// Unimplemented names a tensor of a dtype that safetensors does not have; else
// the errors of CheckpointReader, which name the tensor and its file, and those
// of WriteSafetensors.
absl::StatusOr<WrittenFile> Consolidate(FileSystem* files,
                                        const std::string& folder,
                                        const Manifest& manifest,
                                        const std::string& target,
                                        const ConsolidateOptions& options = {});

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_CONSOLIDATE_H_

// Verifies a committed checkpoint: every byte of every file.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_VERIFY_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_VERIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/safetensors.h"

namespace lockstep::checkpoint {

// DataLoss if the header of a file is not what the manifest says of it: names
// the tensor. Each slice must be stored with its dtype and shape, and each
// stored tensor be a slice; foreign files may have more.
absl::Status CompareHeader(const Manifest& manifest, const std::string& file,
                           const SafetensorsHeader& header);

struct VerifiedCheckpoint {
  int64_t tensors = 0;
  int64_t files = 0;
  uint64_t bytes = 0;               // of the files
  std::vector<absl::Status> wrong;  // each names a file; empty: all is right
};

// Reads the manifest and all files that it lists, and compares sizes, headers
// and hashes. A safetensors file that the manifest does not list is wrong, too.
// Memory: a few MiB.
VerifiedCheckpoint Verify(FileSystem* files, const AttemptFolder& folder);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_VERIFY_H_

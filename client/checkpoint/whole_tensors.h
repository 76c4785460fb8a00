// The tensors of a checkpoint, whole, as sources of files.
//
// Threads: one caller.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_WHOLE_TENSORS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_WHOLE_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/checkpoint/checkpoint_reader.h"
#include "client/checkpoint/safetensors_writer.h"

namespace lockstep::checkpoint {

// Called by the copying thread after each piece; both count bytes of tensors.
using CopyProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads them piece by piece, in memory of kPieceBytes.
class WholeTensors {
 public:
  // `reader` must outlive it.
  explicit WholeTensors(CheckpointReader* reader,
                        CopyProgress on_progress = nullptr);
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  // The tensors, or one of them, in the order of the manifest. This object must
  // outlive the result.
  std::vector<TensorToWrite> All();
  TensorToWrite At(size_t index);

 private:
  absl::StatusOr<absl::string_view> Read(const ManifestTensor& tensor,
                                         uint64_t offset, size_t bytes_max);

  CheckpointReader* const reader_;
  const CopyProgress on_progress_;
  uint64_t bytes_total_ = 0;
  uint64_t bytes_done_ = 0;
  std::string piece_;  // the last one
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_WHOLE_TENSORS_H_

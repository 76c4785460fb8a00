#include "client/checkpoint/whole_tensors.h"

#include <algorithm>
#include <utility>

namespace lockstep::checkpoint {
namespace {

struct PieceBox {
  TensorBox box;
  uint64_t elements = 0;
};

// The largest box of at most `elements_max` elements, at least 1, whose
// elements are those from number `first` on, without gaps, in the row-major
// order of a tensor of `shape`.
//
//   shape [3,4], first 4, at most 9: [1,0] of shape [2,4]
//   shape [3,4], first 5, at most 9: [1,1] of shape [1,3]
PieceBox PieceAt(const std::vector<int64_t>& shape, uint64_t first,
                 uint64_t elements_max) {
  PieceBox next = {{std::vector<int64_t>(shape.size()),
                    std::vector<int64_t>(shape.size(), 1)},
                   1};
  bool is_complete = true;  // all dimensions after d, from their beginning
  for (size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<uint64_t>(shape[d]);
    const uint64_t at = first % extent;
    next.box.begin[d] = static_cast<int64_t>(at);
    first /= extent;
    if (!is_complete) continue;
    const uint64_t rows = std::min(extent - at, elements_max / next.elements);
    next.box.shape[d] = static_cast<int64_t>(rows);
    next.elements *= rows;
    is_complete = rows == extent;
  }
  return next;
}

}  // namespace

WholeTensors::WholeTensors(CheckpointReader* reader, CopyProgress on_progress)
    : reader_(reader), on_progress_(std::move(on_progress)) {
  for (const ManifestTensor& tensor : reader_->manifest().tensors) {
    // An overflow is found when the manifest is validated.
    bytes_total_ += TensorBytes(tensor.type).value_or(0);
  }
}

std::vector<TensorToWrite> WholeTensors::All() {
  std::vector<TensorToWrite> all;
  for (size_t i = 0; i < reader_->manifest().tensors.size(); ++i) {
    all.push_back(At(i));
  }
  return all;
}

TensorToWrite WholeTensors::At(size_t index) {
  const ManifestTensor& tensor = reader_->manifest().tensors[index];
  return {.name = tensor.name,
          .type = tensor.type,
          .pieces = [this, &tensor](uint64_t offset, size_t bytes_max) {
            return Read(tensor, offset, bytes_max);
          }};
}

absl::StatusOr<absl::string_view> WholeTensors::Read(
    const ManifestTensor& tensor, uint64_t offset, size_t bytes_max) {
  const uint64_t element_bytes = SizeOf(tensor.type.dtype);
  const PieceBox next = PieceAt(tensor.type.shape, offset / element_bytes,
                                bytes_max / element_bytes);
  piece_.resize(kPieceBytes);
  absl::Status status = reader_->Read(tensor.name, next.box, piece_.data());
  if (!status.ok()) return status;
  const uint64_t bytes = next.elements * element_bytes;
  bytes_done_ += bytes;
  if (on_progress_) on_progress_(bytes_done_, bytes_total_);
  return absl::string_view(piece_.data(), bytes);
}

}  // namespace lockstep::checkpoint

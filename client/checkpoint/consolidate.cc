#include "client/checkpoint/consolidate.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/checkpoint_reader.h"

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

// Reads a tensor piece by piece; `piece` has the last one.
PieceSource FromCheckpoint(CheckpointReader* reader,
                           const ManifestTensor* tensor, std::string* piece) {
  return [=](uint64_t offset,
             size_t bytes_max) -> absl::StatusOr<absl::string_view> {
    const uint64_t element_bytes = SizeOf(tensor->type.dtype);
    const PieceBox next = PieceAt(tensor->type.shape, offset / element_bytes,
                                  bytes_max / element_bytes);
    piece->resize(kPieceBytes);
    absl::Status status = reader->Read(tensor->name, next.box, piece->data());
    if (!status.ok()) return status;
    return absl::string_view(piece->data(), next.elements * element_bytes);
  };
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<WrittenFile> Consolidate(FileSystem* files,
                                        const std::string& folder,
                                        const Manifest& manifest,
                                        const std::string& target,
                                        const ConsolidateOptions& options) {
  auto reader =
      CheckpointReader::Open(files, folder, manifest,
                             {.check = options.check,
                              .sample_seed = options.sample_seed,
                              .open_files_max = options.open_files_max});
  if (!reader.ok()) return reader.status();
  std::string piece;
  std::vector<TensorToWrite> tensors;
  for (const ManifestTensor& tensor : (*reader)->manifest().tensors) {
    tensors.push_back(
        {.name = tensor.name,
         .type = tensor.type,
         .pieces = FromCheckpoint(reader->get(), &tensor, &piece)});
  }
  absl::StatusOr<WrittenFile> written = WriteSafetensors(
      files, target, std::move(tensors),
      {{"format", "pt"}, {"step", absl::StrCat(manifest.step)}});
  if (!written.ok()) return written;
  absl::Status status = files->SyncDirectory(ParentOf(target));
  if (!status.ok()) {
    files->Remove(target).IgnoreError();
    return status;
  }
  return written;
}

}  // namespace lockstep::checkpoint

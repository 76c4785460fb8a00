// Reads any box of any tensor of a checkpoint, whatever slices it was saved in.
//
//   written by 2 ranks       read by 3 ranks
//   ┌────────┬────────┐      ┌─────────────────┐
//   │ rank-0 │ rank-1 │      │ box of rank 0   │  2 slices, a part of each
//   │        │        │      ├─────────────────┤
//   │        │        │      │ box of rank 1   │
//   └────────┴────────┘      └─────────────────┘ ...
//
//   auto reader = CheckpointReader::Open(&files, folder, manifest);
//   auto status = (*reader)->Read("w", {{0, 0}, {2, 8}}, memory);
//
// Memory beside the caller's, whatever the tensors' sizes: for each open file
// its header and one block of hashes (4 MiB; none with HashCheck::kOff), and
// kGatheredReadBytes.
//
// Threads: one caller at a time. Several readers may read one checkpoint.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_CHECKPOINT_READER_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_CHECKPOINT_READER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/tiling.h"

namespace lockstep::checkpoint {

// Runs of bytes with at most this gap between them are read as one range: the
// operating system reads whole pages anyway.
inline constexpr uint64_t kReadGapBytesMax = 4096;
// The longest such range. A longer run is read into the caller's memory.
inline constexpr size_t kGatheredReadBytes = size_t{1} << 20;

struct CheckpointReaderOptions {
  HashCheck check = HashCheck::kFull;
  // For kSampled; other blocks are sampled in each file.
  uint64_t sample_seed = 0;
  // More files are closed, the least recently used one first, and opened again
  // when they are needed: at least 1.
  size_t open_files_max = 16;
};

// The elements of `box` go to `to`: dense, row-major. `box` is a part of the
// global tensor.
struct BoxRead {
  std::string tensor;
  TensorBox box;
  void* to = nullptr;
};

class CheckpointReader {
 public:
  // Opens no file yet. InvalidArgument for a manifest that is not valid, and
  // for a foreign one unless `check` is kOff.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      FileSystem* files, std::string folder, Manifest manifest,
      CheckpointReaderOptions options = {});

  const Manifest& manifest() const { return manifest_; }
  // Valid as long as the reader; nullptr if there is none.
  const ManifestTensor* Find(absl::string_view name) const;

  // Reads the byte ranges that the boxes need, and gaps of at most
  // kReadGapBytesMax between them; where hashes are compared, whole blocks.
  // Files are read one after the other, each from its beginning to its end, so
  // many boxes in one call take the fewest reads.
  //
  // Before a byte is read: NotFound for a tensor that is not in the checkpoint,
  // InvalidArgument for a box that is not inside of its tensor, or that has
  // elements and no memory. Other errors name the file and the tensor: DataLoss
  // if a file has another size, other hashes or other tensors than the manifest
  // says, else those of the file system. After an error the memory of all boxes
  // has undefined contents.
  absl::Status Read(absl::Span<const BoxRead> reads);
  absl::Status Read(const std::string& tensor, const TensorBox& box, void* to);

 private:
  // What a box needs of a slice.
  struct Part {
    const ManifestTensor* tensor;
    const ManifestSlice* slice;
    const BoxRead* read;
    const StoredTensor* in_file;  // set when the file is open
  };

  CheckpointReader(FileSystem* files, std::string folder, Manifest manifest,
                   CheckpointReaderOptions options);

  std::string PathOf(size_t file) const;
  absl::StatusOr<const ManifestTensor*> Checked(const BoxRead& read) const;
  absl::StatusOr<SafetensorsReader*> OpenFile(size_t file);
  absl::Status ReadParts(size_t file, std::vector<Part> parts);
  absl::Status ReadPart(SafetensorsReader* reader, const Part& part);

  FileSystem* const files_;
  const std::string folder_;
  const Manifest manifest_;
  const CheckpointReaderOptions options_;
  absl::flat_hash_map<absl::string_view, const ManifestTensor*> tensors_;
  absl::flat_hash_map<absl::string_view, size_t> file_numbers_;
  // The most recently used first.
  std::list<std::pair<size_t, std::unique_ptr<SafetensorsReader>>> open_;
  std::string gathered_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_CHECKPOINT_READER_H_

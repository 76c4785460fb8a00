// Reads tensors, or ranges of their bytes, from a safetensors file, and
// compares what it reads with the hashes that the writer returned.
//
//   auto reader = SafetensorsReader::Open(&files, path, {.expected = &hashes});
//   const StoredTensor* w = (*reader)->Find("w");
//   auto status = (*reader)->Read(*w, 0, w->bytes(), memory);
//
// Threads: one caller at a time. Several readers may have one file open.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_READER_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "client/checkpoint/checked_file.h"
#include "client/checkpoint/safetensors.h"

namespace lockstep::checkpoint {

class SafetensorsReader {
 public:
  // Opens the file and reads its header. Errors name the file: DataLoss for
  // another size or header than was written, Unimplemented for a dtype that
  // Lockstep does not have, InvalidArgument for options that contradict
  // themselves, else those of the file system.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(
      FileSystem* files, const std::string& path, ReadChecks checks);

  const SafetensorsHeader& header() const { return header_; }
  uint64_t data_begin() const { return data_begin_; }

  // Valid as long as the reader; nullptr if there is none.
  const StoredTensor* Find(absl::string_view name) const;

  // Reads `bytes` bytes of a tensor of `header()` from `offset` on into `to`.
  // OutOfRange beyond the tensor's end. DataLoss names the file, the tensor and
  // the block with another hash; `to` then has undefined contents.
  absl::Status Read(const StoredTensor& tensor, uint64_t offset, uint64_t bytes,
                    void* to);

  // Reads the whole file and compares every block and the hash of the whole
  // file, whatever was checked at reading. DataLoss names the first blocks that
  // are wrong and the tensors in them. Needs `ReadChecks::expected`.
  absl::Status VerifyAll();

 private:
  SafetensorsReader(std::string path, CheckedFile file,
                    SafetensorsHeader header, uint64_t data_begin);

  // The tensors that have bytes in a range of the file: for messages.
  std::string ContentsOf(uint64_t begin, uint64_t end) const;

  const std::string path_;
  CheckedFile file_;
  const SafetensorsHeader header_;
  const uint64_t data_begin_;
  absl::flat_hash_map<absl::string_view, const StoredTensor*> by_name_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_READER_H_

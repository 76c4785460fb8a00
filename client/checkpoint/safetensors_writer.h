// Writes a safetensors file from its beginning to its end, and hashes it on the
// way.
//
// The data of a tensor comes in pieces of about 4 MiB, which are written
// without a copy; memory for the whole file is never needed. Writeback begins
// with each piece, so that the sync at the end waits for the last ones only.
//
// Threads: one caller, which blocks until the file is durable.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_WRITER_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "client/checkpoint/content_hash.h"
#include "client/checkpoint/safetensors.h"
#include "lockstep/tensor_type.h"

namespace lockstep::checkpoint {

inline constexpr size_t kPieceBytes = size_t{4} << 20;

// Gives a tensor's bytes in order: the next 1 to `bytes_max` from `offset` on,
// which must be valid until the next call. An error ends the file.
using PieceSource = std::function<absl::StatusOr<absl::string_view>(
    uint64_t offset, size_t bytes_max)>;

// Pieces of contiguous memory, which must be valid and unchanged until the file
// is written.
PieceSource FromMemory(const void* data);

struct TensorToWrite {
  std::string name;
  TensorType type;
  PieceSource pieces;  // not called for a tensor without bytes
};

struct WrittenFile {
  SafetensorsHeader header;
  uint64_t data_begin = 0;
  ContentHashes hashes;  // with the file's size
};

// Creates `path` and writes the tensors in the order of LayOut. After OK the
// bytes are durable; the name is after SyncDirectory, which is for the caller:
// once for all files of a directory.
//
// AlreadyExists if `path` exists. After any other error there is no such file,
// unless it cannot be removed; even then no reader takes it for a complete one,
// because it is shorter than its header says. Errors of the sources and of the
// file system are passed on with the tensor and the path; else those of
// FormatHeader, and Internal for a source that gives no or too many bytes.
absl::StatusOr<WrittenFile> WriteSafetensors(
    FileSystem* files, const std::string& path,
    std::vector<TensorToWrite> tensors,
    std::map<std::string, std::string> metadata = {});

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_WRITER_H_

#include "client/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::checkpoint {
namespace {

// Smaller pieces are gathered, since each Append is a system call.
constexpr size_t kGatheredBytes = 64 << 10;

// A file that is hashed while it is written.
class HashedFile {
 public:
  explicit HashedFile(std::unique_ptr<WritableFile> file)
      : file_(std::move(file)) {
    gathered_.reserve(kGatheredBytes);
  }

  absl::Status Append(absl::string_view bytes) {
    if (gathered_.size() + bytes.size() <= kGatheredBytes) {
      gathered_.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    }
    absl::Status status = WriteGathered();
    if (!status.ok()) return status;
    if (bytes.size() <= kGatheredBytes) return Append(bytes);
    return Write(bytes);
  }

  absl::Status Sync() {
    absl::Status status = WriteGathered();
    return status.ok() ? file_->Sync() : status;
  }

  ContentHashes hashes() const { return hasher_.hashes(); }

 private:
  absl::Status WriteGathered() {
    absl::Status status =
        gathered_.empty() ? absl::OkStatus() : Write(gathered_);
    gathered_.clear();
    return status;
  }

  // The device writes while the bytes are hashed.
  absl::Status Write(absl::string_view bytes) {
    absl::Status status = file_->Append(bytes);
    waiting_ += bytes.size();
    if (status.ok() && waiting_ >= kPieceBytes) {
      status = file_->StartWriteback();
      waiting_ = 0;
    }
    if (status.ok()) hasher_.Update(bytes);
    return status;
  }

  const std::unique_ptr<WritableFile> file_;
  std::string gathered_;
  uint64_t waiting_ = 0;  // bytes appended since writeback began
  ContentHasher hasher_;
};

absl::Status WithTensor(absl::string_view name, const absl::Status& error) {
  if (absl::StartsWith(error.message(), TensorText(name))) return error;
  return absl::Status(error.code(),
                      absl::StrCat(TensorText(name), ": ", error.message()));
}

absl::Status WriteTensor(const StoredTensor& tensor, const PieceSource& pieces,
                         HashedFile* file) {
  Check(pieces != nullptr || tensor.bytes() == 0,
        "a tensor with bytes has a source");
  uint64_t offset = 0;
  while (offset < tensor.bytes()) {
    const size_t bytes_max =
        std::min<uint64_t>(kPieceBytes, tensor.bytes() - offset);
    const auto piece = pieces(offset, bytes_max);
    if (!piece.ok()) return piece.status();
    if (piece->empty() || piece->size() > bytes_max) {
      return absl::InternalError(
          absl::StrCat("the source gave ", piece->size(), " bytes at offset ",
                       offset, ", where 1 to ", bytes_max, " were asked for"));
    }
    absl::Status status = file->Append(*piece);
    if (!status.ok()) return status;
    offset += piece->size();
  }
  return absl::OkStatus();
}

using Sources = absl::flat_hash_map<std::string, PieceSource>;

absl::StatusOr<WrittenFile> Write(std::unique_ptr<WritableFile> opened,
                                  SafetensorsHeader header,
                                  const std::string& formatted,
                                  const Sources& sources) {
  HashedFile file(std::move(opened));
  absl::Status status = file.Append(formatted);
  if (!status.ok()) return status;
  for (const StoredTensor& tensor : header.tensors) {
    status = WriteTensor(tensor, sources.at(tensor.name), &file);
    if (!status.ok()) return WithTensor(tensor.name, status);
  }
  status = file.Sync();
  if (!status.ok()) return status;
  return WrittenFile{.header = std::move(header),
                     .data_begin = formatted.size(),
                     .hashes = file.hashes()};
}

}  // namespace

PieceSource FromMemory(const void* data) {
  return [data](uint64_t offset, size_t bytes_max) {
    return absl::string_view(static_cast<const char*>(data) + offset,
                             bytes_max);
  };
}

absl::StatusOr<WrittenFile> WriteSafetensors(
    FileSystem* files, const std::string& path,
    std::vector<TensorToWrite> tensors,
    std::map<std::string, std::string> metadata) {
  SafetensorsHeader header{.metadata = std::move(metadata)};
  Sources sources;
  for (TensorToWrite& tensor : tensors) {
    header.tensors.push_back({.name = tensor.name, .type = tensor.type});
    sources.emplace(std::move(tensor.name), std::move(tensor.pieces));
  }
  absl::Status status = LayOut(&header.tensors);
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> formatted = FormatHeader(header);
  if (!formatted.ok()) return formatted.status();
  auto file = files->Open(path, OpenMode::kCreate);
  if (!file.ok()) return file.status();
  absl::StatusOr<WrittenFile> written =
      Write(*std::move(file), std::move(header), *formatted, sources);
  if (!written.ok()) files->Remove(path).IgnoreError();
  return written;
}

}  // namespace lockstep::checkpoint

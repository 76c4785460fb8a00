#include "client/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text/nearest.h"
#include "client/checkpoint/slice_runs.h"
#include "client/checkpoint/verify.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

absl::Status WithTensorName(absl::string_view name, const absl::Status& error) {
  if (absl::StartsWith(error.message(), TensorText(name))) return error;
  return absl::Status(error.code(),
                      absl::StrCat(TensorText(name), ": ", error.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    FileSystem* files, std::string folder, Manifest manifest,
    CheckpointReaderOptions options) {
  absl::Status status = Validate(manifest);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(folder, ": ", status.message()));
  }
  if (options.open_files_max == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " cannot be read with open_files_max = 0"));
  }
  if (manifest.is_foreign && options.check != HashCheck::kOff) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " has no hashes: it can be read without comparing them only"));
  }
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(
      files, std::move(folder), std::move(manifest), options));
}

CheckpointReader::CheckpointReader(FileSystem* files, std::string folder,
                                   Manifest manifest,
                                   CheckpointReaderOptions options)
    : files_(files),
      folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      options_(options) {
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    file_numbers_.emplace(manifest_.files[i].name, i);
  }
  for (const ManifestTensor& tensor : manifest_.tensors) {
    tensors_.emplace(tensor.name, &tensor);
  }
}

const ManifestTensor* CheckpointReader::Find(absl::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

absl::Status CheckpointReader::Read(const std::string& tensor,
                                    const TensorBox& box, void* to) {
  const BoxRead read = {tensor, box, to};
  return Read(absl::MakeConstSpan(&read, 1));
}

absl::Status CheckpointReader::Read(absl::Span<const BoxRead> reads) {
  std::map<size_t, std::vector<Part>> files;
  for (const BoxRead& read : reads) {
    const auto tensor = Checked(read);
    if (!tensor.ok()) return tensor.status();
    const size_t element_bytes = SizeOf((*tensor)->type.dtype);
    for (const ManifestSlice& slice : (*tensor)->slices) {
      if (SliceRuns(slice.box, read.box, element_bytes).AtEnd()) continue;
      files[file_numbers_.at(slice.file)].push_back(
          {*tensor, &slice, &read, nullptr});
    }
  }
  for (auto& [file, parts] : files) {
    absl::Status status = ReadParts(file, std::move(parts));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<const ManifestTensor*> CheckpointReader::Checked(
    const BoxRead& read) const {
  const ManifestTensor* tensor = Find(read.tensor);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const ManifestTensor& known : manifest_.tensors) {
      names.push_back(known.name);
    }
    const std::string nearest = Nearest(read.tensor, names);
    return absl::NotFoundError(
        absl::StrCat(folder_, " has no ", TensorText(read.tensor),
                     nearest.empty() ? "" : "; the nearest is ", nearest));
  }
  if (!IsInside(tensor->type.shape, read.box)) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, ": ", TensorText(read.tensor), " is ", TypeText(tensor->type),
        "; the box at ", BoxText(read.box), " is not inside"));
  }
  const bool is_empty =
      std::count(read.box.shape.begin(), read.box.shape.end(), int64_t{0}) > 0;
  if (read.to == nullptr && !is_empty) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": ", TensorText(read.tensor), " at ",
                     BoxText(read.box), " has no memory to be read into"));
  }
  return tensor;
}

std::string CheckpointReader::PathOf(size_t file) const {
  return absl::StrCat(folder_, "/", manifest_.files[file].name);
}

absl::StatusOr<SafetensorsReader*> CheckpointReader::OpenFile(size_t file) {
  const auto found =
      std::find_if(open_.begin(), open_.end(),
                   [&](const auto& open) { return open.first == file; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().second.get();
  }
  if (open_.size() == options_.open_files_max) open_.pop_back();
  const ManifestFile& listed = manifest_.files[file];
  ReadChecks checks = {
      .check = options_.check,
      .sample_seed = options_.sample_seed + HashBlock(listed.name)};
  if (!manifest_.is_foreign) checks.expected = listed.hashes;
  auto reader =
      SafetensorsReader::Open(files_, PathOf(file), std::move(checks));
  // The manifest lists it, so the checkpoint is damaged.
  if (absl::IsNotFound(reader.status())) {
    return absl::DataLossError(reader.status().message());
  }
  if (!reader.ok()) return reader.status();
  absl::Status status = WithContext(
      PathOf(file), CompareHeader(manifest_, listed.name, (*reader)->header()));
  if (!status.ok()) return status;
  open_.emplace_front(file, *std::move(reader));
  return open_.front().second.get();
}

absl::Status CheckpointReader::ReadParts(size_t file, std::vector<Part> parts) {
  const absl::StatusOr<SafetensorsReader*> reader = OpenFile(file);
  if (!reader.ok()) {
    return WithTensorName(parts.front().read->tensor, reader.status());
  }
  for (Part& part : parts) {
    part.in_file = (*reader)->Find(part.slice->stored_as);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) {
                     return a.in_file->begin < b.in_file->begin;
                   });
  for (const Part& part : parts) {
    absl::Status status = ReadPart(*reader, part);
    if (status.ok()) continue;
    // The file's reader knows the stored name.
    return part.in_file->name == part.read->tensor
               ? status
               : WithTensorName(part.read->tensor, status);
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadPart(SafetensorsReader* reader,
                                        const Part& part) {
  SliceRuns runs(part.slice->box, part.read->box,
                 SizeOf(part.tensor->type.dtype));
  const uint64_t run_bytes = runs.run_bytes();
  char* const to = static_cast<char*>(part.read->to);
  while (!runs.AtEnd()) {
    SliceRuns run = runs;
    uint64_t count = 1, end = runs.from() + run_bytes;
    for (runs.Next(); !runs.AtEnd(); runs.Next(), ++count) {
      const uint64_t next_end = runs.from() + run_bytes;
      if (runs.from() - end > kReadGapBytesMax) break;
      if (next_end - run.from() > kGatheredReadBytes) break;
      end = next_end;
    }
    if (count == 1) {
      absl::Status status =
          reader->Read(*part.in_file, run.from(), run_bytes, to + run.to());
      if (!status.ok()) return status;
      continue;
    }
    const uint64_t begin = run.from();
    gathered_.resize(kGatheredReadBytes);
    absl::Status status =
        reader->Read(*part.in_file, begin, end - begin, gathered_.data());
    if (!status.ok()) return status;
    for (; count > 0; --count, run.Next()) {
      std::memcpy(to + run.to(), gathered_.data() + (run.from() - begin),
                  run_bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::checkpoint

#include "client/checkpoint/import.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/checkpoint/checkpoint_reader.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kCheckpointsName[] = "checkpoints";
constexpr char kSlashCheckpoints[] = "/checkpoints";

constexpr size_t kOpenFilesMax = 64;

absl::Status MakeIfMissing(FileSystem* files, const std::string& path) {
  absl::Status made = files->MakeDirectory(path);
  if (absl::IsAlreadyExists(made)) return absl::OkStatus();
  if (!made.ok()) return made;
  const size_t slash = path.rfind('/');
  return files->SyncDirectory(slash == std::string::npos ? "."
                              : slash == 0               ? "/"
                                           : path.substr(0, slash));
}

absl::StatusOr<CheckpointName> NewName(FileSystem* files,
                                       const std::string& directory,
                                       int64_t step) {
  const auto attempts = ListAttempts(files, directory);
  if (!attempts.ok()) return attempts.status();
  int64_t last = 0;
  for (const AttemptFolder& attempt : *attempts) {
    if (attempt.id.step != step) continue;
    if (attempt.committed) {
      return absl::AlreadyExistsError(
          absl::StrCat(attempt.path, " is a checkpoint of step ", step));
    }
    last = std::max(last, attempt.id.attempt);
  }
  return CheckpointName{step, 0, last + 1};
}

// Writes the tensors into files of a folder and lists them.
absl::Status CopyTensors(FileSystem* files, CheckpointReader* reader,
                         const std::string& folder,
                         const ImportOptions& options, Manifest* manifest) {
  std::vector<NamedType> types;
  for (const ManifestTensor& tensor : reader->manifest().tensors) {
    types.push_back({tensor.name, tensor.type});
  }
  const auto spread = SpreadOverFiles(types, options.file_bytes_max);
  if (!spread.ok()) return spread.status();
  WholeTensors whole(reader, options.on_progress);
  for (size_t i = 0; i < spread->size(); ++i) {
    const std::string name = spread->size() == 1
                                 ? "rank-0.safetensors"
                                 : absl::StrCat("rank-0-", i, ".safetensors");
    std::vector<TensorToWrite> tensors;
    for (const size_t index : (*spread)[i]) tensors.push_back(whole.At(index));
    const auto written = WriteSafetensors(
        files, absl::StrCat(folder, "/", name), std::move(tensors));
    if (!written.ok()) return written.status();
    manifest->files.push_back({name, written->hashes});
    for (const StoredTensor& stored : written->header.tensors) {
      manifest->tensors.push_back(
          {stored.name,
           stored.type,
           {{name,
             stored.name,
             {std::vector<int64_t>(stored.type.shape.size()),
              stored.type.shape}}}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttemptFolder> Import(FileSystem* files,
                                     const ForeignCheckpoint& source,
                                     const std::string& directory,
                                     const ImportOptions& options) {
  const int64_t step = options.step.value_or(source.manifest.step);
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the step is ", step));
  }
  auto reader = CheckpointReader::Open(
      files, source.folder, source.manifest,
      {.check = source.manifest.is_foreign ? HashCheck::kOff : HashCheck::kFull,
       .open_files_max = kOpenFilesMax});
  if (!reader.ok()) return reader.status();
  absl::string_view above = directory;
  while (above.size() > 1 && absl::ConsumeSuffix(&above, "/")) {
  }
  // As for other commands, the folder may be named itself.
  const bool is_named =
      above == kCheckpointsName || absl::EndsWith(above, kSlashCheckpoints);
  const std::string checkpoints =
      is_named ? std::string(above) : absl::StrCat(above, kSlashCheckpoints);
  absl::Status status = MakeIfMissing(files, std::string(above));
  if (status.ok()) status = MakeIfMissing(files, checkpoints);
  if (!status.ok()) return status;
  const auto lock =
      files->Lock(absl::StrCat(checkpoints, "/", kDirectoryLockName),
                  "an import of a checkpoint");
  if (!lock.ok()) return lock.status();
  const auto name = NewName(files, checkpoints, step);
  if (!name.ok()) return name.status();

  AttemptFolder folder{*name,
                       absl::StrCat(checkpoints, "/", FolderName(*name))};
  Manifest manifest{.job = "imported",
                    .step = name->step,
                    .epoch = name->epoch,
                    .attempt = name->attempt,
                    .mesh = {{{"data", 1}}},
                    .training = source.manifest.training};
  manifest.training.step = step;
  status = CreateAttempt(files, checkpoints, *name).status();
  if (absl::IsAlreadyExists(status)) return status;  // another's
  if (status.ok()) {
    status = CopyTensors(files, reader->get(), folder.path, options, &manifest);
  }
  if (status.ok()) status = Commit(files, folder, manifest);
  if (!status.ok()) {
    RemoveAttempt(files, folder).IgnoreError();
    return status;
  }
  folder.committed = true;
  return folder;
}

}  // namespace lockstep::checkpoint

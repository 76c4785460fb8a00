#include "client/state/attempt.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/safetensors_writer.h"
#include "client/state/job_directory.h"
#include "client/state/part.h"

namespace lockstep::state {
namespace {

std::string FileName(int rank, size_t file, size_t files) {
  return absl::StrCat("rank-", rank, files > 1 ? absl::StrCat("-", file) : "",
                      ".safetensors");
}

// Several ranks make the folder: one of them does.
absl::Status MakeFolder(FileSystem* files, const std::string& path) {
  absl::Status made = files->MakeDirectory(path);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return files->SyncDirectory(path.substr(0, path.rfind('/')));
}

// The bytes of one part, which are counted when the next ones are asked for.
checkpoint::PieceSource CountedPieces(const void* data,
                                      const RankFiles& rank_files,
                                      uint64_t* done) {
  return [data, &rank_files, done](uint64_t offset, size_t bytes_max) {
    rank_files.on_progress(*done);
    *done += bytes_max;
    return absl::string_view(static_cast<const char*>(data) + offset,
                             bytes_max);
  };
}

// Writes one file with these parts.
absl::StatusOr<checkpoint::ManifestFile> WriteOneFile(
    FileSystem* files, const checkpoint::AttemptFolder& folder,
    const std::string& name, const std::vector<size_t>& parts,
    const std::vector<checkpoint::NamedType>& stored,
    const RankFiles& rank_files, uint64_t* done) {
  std::vector<checkpoint::TensorToWrite> tensors;
  for (const size_t part : parts) {
    tensors.push_back(
        {.name = stored[part].name,
         .type = stored[part].type,
         .pieces = CountedPieces(rank_files.at(part), rank_files, done)});
  }
  auto written = checkpoint::WriteSafetensors(
      files, absl::StrCat(folder.path, "/", name), std::move(tensors));
  if (!written.ok()) return written.status();
  rank_files.on_progress(*done);
  return checkpoint::ManifestFile{name, std::move(written->hashes)};
}

absl::Status WritePart(FileSystem* files, const std::string& path,
                       const std::string& text) {
  const auto file = files->Open(path, OpenMode::kCreate);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(text);
  return status.ok() ? (*file)->Sync() : status;
}

void AddSlice(const CheckpointJob& job, const StatePart& written,
              checkpoint::ManifestSlice slice, RankPart* part) {
  const JobTensor& tensor = job.tensors[written.tensor];
  if (part->tensors.empty() || part->tensors.back().name != tensor.name) {
    part->tensors.push_back({.name = tensor.name, .type = tensor.type});
  }
  part->tensors.back().slices.push_back(std::move(slice));
}

}  // namespace

checkpoint::AttemptFolder FolderOf(const std::string& directory,
                                   const CheckpointName& attempt) {
  return {attempt, absl::StrCat(CheckpointsIn(directory), "/",
                                checkpoint::FolderName(attempt))};
}

std::vector<std::string> StoredNames(const CheckpointJob& job) {
  std::map<size_t, int> boxes;  // by tensor
  for (const StatePart& part : job.written) ++boxes[part.tensor];
  std::set<std::string> taken;
  for (const auto& [tensor, count] : boxes) {
    taken.insert(job.tensors[tensor].name);
  }
  std::vector<std::string> names;
  for (const StatePart& part : job.written) {
    std::string name = job.tensors[part.tensor].name;
    if (boxes[part.tensor] > 1) {
      absl::StrAppend(&name, " [", absl::StrJoin(part.box.begin, ","), "]");
      while (!taken.insert(name).second) absl::StrAppend(&name, "+");
    }
    names.push_back(std::move(name));
  }
  return names;
}

absl::StatusOr<std::string> WriteRankFiles(
    FileSystem* files, const checkpoint::AttemptFolder& folder,
    const CheckpointJob& job, const TrainingState& training,
    const RankFiles& rank_files) {
  absl::Status status = MakeFolder(files, folder.path);
  if (!status.ok()) return status;
  const std::vector<std::string> names = StoredNames(job);
  std::vector<checkpoint::NamedType> stored;
  for (size_t i = 0; i < names.size(); ++i) {
    const StatePart& part = job.written[i];
    stored.push_back(
        {names[i], {job.tensors[part.tensor].type.dtype, part.box.shape}});
  }
  const auto spread =
      checkpoint::SpreadOverFiles(stored, rank_files.file_bytes_max);
  if (!spread.ok()) return spread.status();
  RankPart part{.rank = job.rank, .attempt = folder.id, .training = training};
  uint64_t done = 0;
  for (size_t f = 0; f < spread->size(); ++f) {
    const std::string name = FileName(job.rank, f, spread->size());
    auto file = WriteOneFile(files, folder, name, (*spread)[f], stored,
                             rank_files, &done);
    if (!file.ok()) return file.status();
    part.files.push_back(*std::move(file));
    for (const size_t i : (*spread)[f]) {
      AddSlice(job, job.written[i], {name, names[i], job.written[i].box},
               &part);
    }
  }
  const PartText formatted = FormatPart(part);
  status =
      WritePart(files, absl::StrCat(folder.path, "/", PartFileName(job.rank)),
                formatted.text);
  // The names of all files at once.
  if (status.ok()) status = files->SyncDirectory(folder.path);
  if (!status.ok()) return status;
  return formatted.hash;
}

absl::Status CommitParts(FileSystem* files,
                         const checkpoint::AttemptFolder& folder,
                         const CheckpointJob& job,
                         const std::vector<std::string>& part_hashes) {
  // The text of the manifest is durable, the name may not be.
  if (checkpoint::ReadManifest(files, folder).ok()) {
    return files->SyncDirectory(folder.path);
  }
  std::vector<RankPart> parts;
  for (size_t rank = 0; rank < part_hashes.size(); ++rank) {
    const std::string path =
        absl::StrCat(folder.path, "/", PartFileName(static_cast<int>(rank)));
    const auto text = ReadWhole(files, path);
    if (!text.ok()) return text.status();
    auto part = ParsePart(*text, part_hashes[rank]);
    if (!part.ok()) return WithContext(path, part.status());
    parts.push_back(*std::move(part));
  }
  const auto manifest = JoinParts(job, folder.id, parts);
  if (!manifest.ok()) return WithContext(folder.path, manifest.status());
  return checkpoint::Commit(files, folder, *manifest);
}

void RemoveParts(FileSystem* files, const checkpoint::AttemptFolder& folder,
                 const CheckpointJob& job) {
  for (int rank = 0; rank < job.mesh.WorldSize(); ++rank) {
    files->Remove(absl::StrCat(folder.path, "/", PartFileName(rank)))
        .IgnoreError();
  }
}

absl::Status RemoveOld(FileSystem* files, const std::string& directory,
                       const CheckpointName& committed,
                       const checkpoint::Retention& retention) {
  auto attempts = checkpoint::ListAttempts(files, CheckpointsIn(directory));
  if (!attempts.ok()) return attempts.status();
  checkpoint::MarkDamaged(files, &*attempts);
  absl::Status first;
  for (const auto& folder : checkpoint::ToRemove(*attempts, retention)) {
    const bool in_progress =
        !folder.committed && folder.id.attempt > committed.attempt;
    if (folder.id == committed || in_progress) continue;
    first.Update(checkpoint::RemoveAttempt(files, folder));
  }
  return first;
}

}  // namespace lockstep::state

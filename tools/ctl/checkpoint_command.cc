#include "tools/ctl/checkpoint_command.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file_system.h"
#include "base/text/count.h"
#include "base/text/units.h"
#include "base/text/utf8.h"
#include "client/checkpoint/verify.h"
#include "lockstep/mesh.h"
#include "protocol/tensor_type.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

using checkpoint::AttemptFolder;
using checkpoint::Manifest;
using checkpoint::ManifestFile;
using Json = nlohmann::ordered_json;

uint64_t BytesOf(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.hashes.bytes;
  return bytes;
}

// "25MiB", "4097 bytes"
std::string AmountText(uint64_t bytes) {
  const std::string text = SizeText(static_cast<int64_t>(bytes));
  return absl::StrCat(text, absl::ascii_isdigit(text.back()) ? " bytes" : "");
}

Json ListEntry(const AttemptFolder& folder,
               const absl::StatusOr<Manifest>& manifest) {
  Json entry{{"path", Printable(folder.path)},
             {"step", folder.id.step},
             {"epoch", folder.id.epoch},
             {"attempt", folder.id.attempt}};
  if (!manifest.ok()) {
    entry["error"] = Printable(manifest.status().message());
    return entry;
  }
  entry["job"] = Printable(manifest->job);
  entry["mesh"] = ToString(manifest->mesh);
  entry["tensors"] = manifest->tensors.size();
  entry["files"] = manifest->files.size();
  entry["bytes"] = BytesOf(*manifest);
  return entry;
}

std::string TrainingText(const TrainingState& training) {
  std::string text =
      absl::StrFormat("training    step %d, epoch %d, learning rate %g\n",
                      training.step, training.epoch, training.learning_rate);
  if (training.samples) {
    absl::StrAppendFormat(
        &text, "samples     %d of %d, seed %d\n", training.samples->position,
        training.samples->dataset_size, training.samples->seed);
  }
  for (const auto& [key, value] : training.metadata) {
    absl::StrAppendFormat(&text, "            %s: %s\n", Printable(key),
                          Printable(value));
  }
  return text;
}

std::string ManifestText(const AttemptFolder& folder,
                         const Manifest& manifest) {
  std::string text = absl::StrFormat(
      "%s\njob         %s, mesh %s\nsaved       step %d, epoch %d, attempt "
      "%d\n%s",
      Printable(folder.path), Printable(manifest.job), ToString(manifest.mesh),
      manifest.step, manifest.epoch, manifest.attempt,
      TrainingText(manifest.training));
  absl::StrAppendFormat(&text, "tensors     %d\n", manifest.tensors.size());
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors) {
    absl::StrAppendFormat(&text, "  %s  %s  %s\n", Printable(tensor.name),
                          TypeText(tensor.type),
                          Count(tensor.slices.size(), "slice"));
  }
  absl::StrAppendFormat(&text, "files       %d, %s\n", manifest.files.size(),
                        AmountText(BytesOf(manifest)));
  for (const ManifestFile& file : manifest.files) {
    absl::StrAppendFormat(&text, "  %s  %s  xxh3 %s\n", Printable(file.name),
                          AmountText(file.hashes.bytes), file.hashes.file);
  }
  return text;
}

absl::StatusOr<AttemptFolder> Find(FileSystem& files, const std::string& path,
                                   int64_t step) {
  const auto folders = checkpoint::FindCommitted(&files, path);
  if (!folders.ok()) return folders.status();
  return checkpoint::NewestOf(
      path, *folders, step < 0 ? std::nullopt : std::optional<int64_t>(step));
}

// False if a file is wrong.
bool VerifyOne(PosixFileSystem& files, const AttemptFolder& folder) {
  const checkpoint::VerifiedCheckpoint verified =
      checkpoint::Verify(&files, folder);
  for (const absl::Status& wrong : verified.wrong) {
    absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(wrong.message()));
  }
  if (!verified.wrong.empty()) {
    Print(absl::StrFormat("%s: damaged\n", Printable(folder.path)));
    return false;
  }
  Print(absl::StrFormat("%s: verified: %s in %s, %s\n", Printable(folder.path),
                        Count(verified.tensors, "tensor"),
                        Count(verified.files, "file"),
                        AmountText(verified.bytes)));
  return true;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string NameOf(absl::string_view path) {
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

int CheckpointList(const std::string& path, bool json) {
  PosixFileSystem files;
  const auto folders = checkpoint::FindCommitted(&files, path);
  if (!folders.ok()) return Refuse(folders.status());
  Json entries = Json::array();
  std::string text;
  int code = 0;
  for (const AttemptFolder& folder : *folders) {
    const auto manifest = checkpoint::ReadManifest(&files, folder);
    if (!manifest.ok()) code = Refuse(manifest.status());
    if (json) {
      entries.push_back(ListEntry(folder, manifest));
    } else if (!manifest.ok()) {
      absl::StrAppendFormat(&text, "%s  damaged\n", Printable(folder.path));
    } else {
      absl::StrAppendFormat(&text, "%s  job %s  mesh %s  %s  %s\n",
                            Printable(folder.path), Printable(manifest->job),
                            ToString(manifest->mesh),
                            Count(manifest->tensors.size(), "tensor"),
                            AmountText(BytesOf(*manifest)));
    }
  }
  Print(json ? absl::StrCat(entries.dump(2), "\n") : text);
  return code;
}

int CheckpointShow(const std::string& path, int64_t step, bool json) {
  PosixFileSystem files;
  const auto folder = Find(files, path, step);
  if (!folder.ok()) return Refuse(folder.status());
  const auto manifest = checkpoint::ReadManifest(&files, *folder);
  if (!manifest.ok()) return Refuse(manifest.status());
  if (!json) {
    Print(ManifestText(*folder, *manifest));
    return 0;
  }
  const auto text = checkpoint::FormatManifest(*manifest);
  if (!text.ok()) return Refuse(text.status());
  Print(*text);
  return 0;
}

int CheckpointVerify(const std::string& path, int64_t step) {
  PosixFileSystem files;
  const auto folder = Find(files, path, step);
  if (!folder.ok()) return Refuse(folder.status());
  return VerifyOne(files, *folder) ? 0 : 1;
}

int CheckpointVerifyAll(const std::string& path) {
  PosixFileSystem files;
  const auto folders = checkpoint::FindCommitted(&files, path);
  if (!folders.ok()) return Refuse(folders.status());
  bool right = true;
  for (const AttemptFolder& folder : *folders) {
    right = VerifyOne(files, folder) && right;
  }
  return right ? 0 : 1;
}

int CheckpointPrune(const std::string& path, const PruneOptions& options) {
  PosixFileSystem files;
  const auto committed = checkpoint::FindCommitted(&files, path);
  if (!committed.ok()) return Refuse(committed.status());
  const std::string directory = ParentOf(committed->back().path);
  if (checkpoint::ParseFolderName(NameOf(path))) {
    return Refuse(absl::InvalidArgumentError(absl::StrCat(
        path, " is one checkpoint: prune takes the directory that it is in")));
  }
  auto folders = checkpoint::ListAttempts(&files, directory);
  if (!folders.ok()) return Refuse(folders.status());
  checkpoint::MarkDamaged(&files, &*folders);
  for (const AttemptFolder& folder : *folders) {
    if (!folder.damaged) continue;
    absl::FPrintF(stderr,
                  "lockstepctl: %s is damaged: it stays, and does not count\n",
                  Printable(folder.path));
  }
  const auto gone = checkpoint::ToRemove(*folders, options.retention);
  for (const AttemptFolder& folder : gone) {
    if (!options.dry_run) {
      const absl::Status removed = checkpoint::RemoveAttempt(&files, folder);
      if (!removed.ok()) return Refuse(removed);
    }
    Print(absl::StrFormat("%s: %s%s\n", Printable(folder.path),
                          options.dry_run ? "would be removed" : "removed",
                          folder.committed ? "" : " (not committed)"));
  }
  if (options.dry_run) return 0;
  const auto leftovers = checkpoint::RemoveLeftovers(&files, directory);
  if (!leftovers.ok()) return Refuse(leftovers.status());
  Print(absl::StrFormat("%d kept\n", folders->size() - gone.size()));
  return 0;
}

}  // namespace lockstep::ctl

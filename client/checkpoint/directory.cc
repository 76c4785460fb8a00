#include "client/checkpoint/directory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "client/checkpoint/weight_index.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kRemoved[] = "removed-";
constexpr char kCheckpoints[] = "checkpoints";

std::string Join(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/",
                      name);
}

// The part of a path before its last name.
std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::string_view LastName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::StatusOr<bool> Is(FileKind kind, FileSystem* files,
                        const std::string& path) {
  const absl::StatusOr<FileKind> found = files->KindOf(path);
  if (absl::IsNotFound(found.status())) return false;
  if (!found.ok()) return found.status();
  return *found == kind;
}

absl::StatusOr<bool> HasManifest(FileSystem* files, const std::string& folder) {
  return Is(FileKind::kRegular, files, Join(folder, kManifestName));
}

absl::Status CheckAttempt(const CheckpointName& id, const Manifest& manifest) {
  const CheckpointName of{manifest.step, manifest.epoch, manifest.attempt};
  if (of == id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the manifest is that of ", FolderName(of)));
}

}  // namespace

std::string FolderName(const CheckpointName& id) {
  return absl::StrCat("step-", id.step, "-epoch-", id.epoch, "-attempt-",
                      id.attempt);
}

std::optional<CheckpointName> ParseFolderName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  CheckpointName id;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[1], &id.step) ||
      !absl::SimpleAtoi(parts[3], &id.epoch) ||
      !absl::SimpleAtoi(parts[5], &id.attempt)) {
    return std::nullopt;
  }
  // Refuses signs, leading zeros and other words.
  if (FolderName(id) != name) return std::nullopt;
  return id;
}

absl::StatusOr<std::vector<AttemptFolder>> ListAttempts(
    FileSystem* files, const std::string& directory) {
  const auto names = files->List(directory);
  if (!names.ok()) return names.status();
  std::vector<AttemptFolder> folders;
  for (const std::string& name : *names) {
    const std::optional<CheckpointName> id = ParseFolderName(name);
    if (!id) continue;
    AttemptFolder folder{.id = *id, .path = Join(directory, name)};
    const auto is_folder = Is(FileKind::kDirectory, files, folder.path);
    if (!is_folder.ok()) return is_folder.status();
    if (!*is_folder) continue;
    const auto committed = HasManifest(files, folder.path);
    if (!committed.ok()) return committed.status();
    folder.committed = *committed;
    folders.push_back(std::move(folder));
  }
  std::sort(folders.begin(), folders.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return folders;
}

absl::StatusOr<std::vector<AttemptFolder>> FindCommitted(
    FileSystem* files, const std::string& path) {
  const std::string given = WithoutSlashes(path);
  const std::optional<CheckpointName> id = ParseFolderName(LastName(given));
  if (id) {
    const auto committed = HasManifest(files, given);
    if (!committed.ok()) return committed.status();
    if (*committed) return {{AttemptFolder{*id, given, true}}};
    const auto exists = Is(FileKind::kDirectory, files, given);
    if (!exists.ok()) return exists.status();
    if (*exists) {
      return absl::NotFoundError(
          absl::StrCat(given, " is not committed: it has no ", kManifestName));
    }
  }
  // A copy under another name.
  const auto text = ReadWhole(files, Join(given, kManifestName));
  if (text.ok()) {
    const auto manifest = ParseManifest(*text);
    if (!manifest.ok()) return WithContext(given, manifest.status());
    const CheckpointName name{manifest->step, manifest->epoch,
                              manifest->attempt};
    return {{AttemptFolder{name, given, true}}};
  }
  for (const std::string& directory : {given, Join(given, kCheckpoints)}) {
    auto folders = ListAttempts(files, directory);
    if (absl::IsNotFound(folders.status()) && directory != given) break;
    if (!folders.ok()) return folders.status();
    folders->erase(
        std::remove_if(folders->begin(), folders->end(),
                       [](const auto& folder) { return !folder.committed; }),
        folders->end());
    if (!folders->empty()) return folders;
  }
  return absl::NotFoundError(
      absl::StrCat(given, " has no committed checkpoint, nor has its folder ",
                   kCheckpoints));
}

absl::StatusOr<AttemptFolder> NewestOf(
    const std::string& path, const std::vector<AttemptFolder>& folders,
    std::optional<int64_t> step) {
  std::set<int64_t> steps;
  std::optional<AttemptFolder> newest;
  for (const AttemptFolder& folder : folders) {
    if (!folder.committed) continue;
    steps.insert(folder.id.step);
    if (!step || folder.id.step == *step) newest = folder;
  }
  if (newest) return *std::move(newest);
  return absl::NotFoundError(absl::StrCat(
      path, " has no committed checkpoint",
      step ? absl::StrCat(" of step ", *step) : "",
      steps.empty()
          ? ""
          : absl::StrCat("; there are steps ", absl::StrJoin(steps, ", "))));
}

absl::StatusOr<std::string> CreateAttempt(FileSystem* files,
                                          const std::string& directory,
                                          const CheckpointName& id) {
  const std::string path = Join(directory, FolderName(id));
  absl::Status made = files->MakeDirectory(path);
  made.Update(files->SyncDirectory(directory));
  if (!made.ok()) return made;
  return path;
}

absl::Status Commit(FileSystem* files, const AttemptFolder& folder,
                    const Manifest& manifest) {
  absl::Status fits = CheckAttempt(folder.id, manifest);
  if (!fits.ok()) return WithContext(folder.path, fits);
  const auto text = FormatManifest(manifest);
  if (!text.ok()) return WithContext(folder.path, text.status());
  absl::Status indexed = WriteWeightIndex(files, folder.path, manifest);
  if (!indexed.ok()) return indexed;
  // The names of the files, before the one that says that they are there.
  absl::Status synced = files->SyncDirectory(folder.path);
  if (!synced.ok()) return synced;
  return ReplaceFile(files, Join(folder.path, kManifestName), *text);
}

absl::StatusOr<Manifest> ReadManifest(FileSystem* files,
                                      const AttemptFolder& folder) {
  const std::string path = Join(folder.path, kManifestName);
  const auto text = ReadWhole(files, path);
  if (!text.ok()) return text.status();
  auto manifest = ParseManifest(*text);
  absl::Status status = manifest.status();
  if (status.ok()) status = CheckAttempt(folder.id, *manifest);
  if (!status.ok()) return WithContext(path, status);
  return manifest;
}

absl::Status RemoveAttempt(FileSystem* files, const AttemptFolder& folder) {
  const std::string directory = DirectoryOf(folder.path);
  const std::string removed =
      Join(directory, absl::StrCat(kRemoved, FolderName(folder.id)));
  absl::Status status = files->Rename(folder.path, removed);
  // Or the files could be gone, and the folder listed, after a crash.
  if (status.ok()) status = files->SyncDirectory(directory);
  if (status.ok()) status = files->RemoveFolder(removed);
  return status;
}

absl::StatusOr<int> RemoveLeftovers(FileSystem* files,
                                    const std::string& directory) {
  const auto names = files->List(directory);
  if (!names.ok()) return names.status();
  int removed = 0;
  for (absl::string_view name : *names) {
    absl::string_view of = name;
    if (!absl::ConsumePrefix(&of, kRemoved) || !ParseFolderName(of)) continue;
    // A link is not ours.
    const auto is_folder =
        Is(FileKind::kDirectory, files, Join(directory, name));
    if (!is_folder.ok()) return is_folder.status();
    if (!*is_folder) continue;
    absl::Status status = files->RemoveFolder(Join(directory, name));
    if (!status.ok()) return status;
    ++removed;
  }
  return removed;
}

void MarkDamaged(FileSystem* files, std::vector<AttemptFolder>* folders) {
  for (AttemptFolder& folder : *folders) {
    folder.damaged = folder.committed && !ReadManifest(files, folder).ok();
  }
}

std::vector<AttemptFolder> ToRemove(const std::vector<AttemptFolder>& folders,
                                    const Retention& retention) {
  std::vector<AttemptFolder> gone;
  int64_t newer = 0;  // committed ones
  for (size_t i = folders.size(); i-- > 0;) {
    const AttemptFolder& folder = folders[i];
    if (folder.damaged) continue;
    if (!folder.committed) {
      if (newer > 0) gone.push_back(folder);
      continue;
    }
    ++newer;
    const bool is_last = newer <= std::max<int64_t>(retention.keep_last, 1);
    const bool is_every =
        retention.keep_every > 0 && folder.id.step % retention.keep_every == 0;
    if (!is_last && !is_every) gone.push_back(folder);
  }
  std::reverse(gone.begin(), gone.end());
  return gone;
}

}  // namespace lockstep::checkpoint

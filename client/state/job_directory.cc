#include "client/state/job_directory.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/checkpoint/directory.h"

namespace lockstep::state {
namespace {

constexpr char kNonce[] = "nonce-";
constexpr char kFailure[] = "0000000000000000";  // 16 digits

std::string NoncePath(const std::string& directory, const std::string& nonce) {
  return absl::StrCat(CheckpointsIn(directory), "/", kNonce, nonce);
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// With its parents, durably.
absl::Status MakeDirectories(FileSystem* files, const std::string& path) {
  const auto kind = files->KindOf(path);
  if (kind.ok()) return absl::OkStatus();  // if it is none, its use fails
  if (!absl::IsNotFound(kind.status())) return kind.status();
  const std::string parent = ParentOf(path);
  absl::Status status = MakeDirectories(files, parent);
  if (status.ok()) status = files->MakeDirectory(path);
  if (absl::IsAlreadyExists(status)) status = absl::OkStatus();
  if (status.ok()) status = files->SyncDirectory(parent);
  return status;
}

absl::Status WriteDurably(FileSystem* files, const std::string& path,
                          absl::string_view bytes) {
  const auto file = files->Open(path, OpenMode::kCreate);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(bytes);
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = files->SyncDirectory(ParentOf(path));
  return status;
}

// Nonces of jobs that ended while they opened the directory.
absl::Status RemoveOldNonces(FileSystem* files, const std::string& folder) {
  const auto names = files->List(folder);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kNonce)) continue;
    absl::Status removed = files->Remove(absl::StrCat(folder, "/", name));
    if (!removed.ok()) return removed;
  }
  return absl::OkStatus();
}

}  // namespace

std::string CheckpointsIn(const std::string& directory) {
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/",
                      "checkpoints");
}

absl::StatusOr<OpenedDirectory> OpenDirectory(FileSystem* files,
                                              const std::string& directory,
                                              const std::string& nonce,
                                              absl::string_view holder) {
  OpenedDirectory opened;
  opened.found.path = directory;
  opened.found.nonce = nonce;
  const std::string folder = CheckpointsIn(directory);
  absl::Status status = MakeDirectories(files, folder);
  if (!status.ok()) return status;
  auto lock = files->Lock(
      absl::StrCat(folder, "/", checkpoint::kDirectoryLockName), holder);
  if (absl::IsFailedPrecondition(lock.status())) {
    return WithContext(absl::StrCat("another job uses ", directory),
                       lock.status());
  }
  if (!lock.ok()) return lock.status();
  opened.lock = *std::move(lock);
  status = RemoveOldNonces(files, folder);
  if (!status.ok()) return status;
  const auto attempts = checkpoint::ListAttempts(files, folder);
  if (!attempts.ok()) return attempts.status();
  opened.not_removed = checkpoint::RemoveLeftovers(files, folder).status();
  for (const checkpoint::AttemptFolder& attempt : *attempts) {
    // With the lock nobody writes it any more.
    if (!attempt.committed) {
      opened.not_removed.Update(checkpoint::RemoveAttempt(files, attempt));
    }
    opened.found.first_attempt =
        std::max(opened.found.first_attempt, attempt.id.attempt + 1);
    if (attempt.committed) opened.found.newest = attempt.id;
  }
  status = WriteDurably(files, NoncePath(directory, nonce), nonce);
  if (!status.ok()) return status;
  return opened;
}

absl::Status ReadNonce(FileSystem* files, const std::string& directory,
                       const std::string& nonce) {
  const std::string path = NoncePath(directory, nonce);
  const auto text = ReadWhole(files, path);
  if (!text.ok()) return text.status();
  if (*text == nonce) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " has \"", *text, "\", rank 0 wrote \"", nonce, "\""));
}

absl::Status TryToWrite(FileSystem* files, const std::string& directory,
                        const std::string& nonce, int rank) {
  const std::string path = absl::StrCat(NoncePath(directory, nonce), "-", rank);
  absl::Status status = files->Open(path, OpenMode::kCreate).status();
  return status.ok() ? files->Remove(path) : status;
}

absl::Status RemoveNonce(FileSystem* files, const std::string& directory,
                         const std::string& nonce) {
  return files->Remove(NoncePath(directory, nonce));
}

std::string NewNonce() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(),
                         device());
}

std::string NewNonceOfFailure() {
  return absl::StrCat(kFailure, NewNonce().substr(sizeof(kFailure) - 1));
}

bool IsOfFailure(absl::string_view nonce) {
  return absl::StartsWith(nonce, kFailure);
}

std::string ThisProcess() {
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("pid ", getpid(), " on host ", host);
}

}  // namespace lockstep::state

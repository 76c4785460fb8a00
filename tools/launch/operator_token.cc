#include "tools/launch/operator_token.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/secret_file.h"

namespace lockstep::launch {
namespace {

constexpr char kExtension[] = ".token";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> Folder() {
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return absl::StrCat(runtime, "/lockstep");
  const std::string home = Variable("HOME");
  if (!home.empty()) return absl::StrCat(home, "/.lockstep");
  return absl::FailedPreconditionError(
      "neither XDG_RUNTIME_DIR nor HOME is set");
}

absl::Status Failed(const char* call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " ", path));
}

// Invalid if there is no such folder, or `how` does not wait and another
// process has it.
FileDescriptor LockFolder(const std::string& folder, int how) {
  FileDescriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && flock(fd.get(), how) == 0 ? std::move(fd)
                                                 : FileDescriptor();
}

bool IsNamed(const FileDescriptor& file, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(file.get(), &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Whether a launcher that was killed has left this file: then it is removed. A
// file that cannot be opened, or a file system without locks, leaves it as it
// is.
bool RemoveIfLeft(const std::string& folder, const std::string& path) {
  const FileDescriptor file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file.valid() || flock(file.get(), LOCK_SH | LOCK_NB) != 0) return false;
  const FileDescriptor lock = LockFolder(folder, LOCK_EX | LOCK_NB);
  if (lock.valid() && IsNamed(file, path)) unlink(path.c_str());
  return true;
}

}  // namespace

absl::StatusOr<std::string> OperatorTokenPath(const std::string& address) {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return folder;
  return absl::StrCat(*folder, "/", address, kExtension);
}

absl::StatusOr<std::string> FindOperatorToken(const std::string& address) {
  absl::StatusOr<OperatorAccess> access = FindOperatorAccess(address);
  if (!access.ok()) return access.status();
  return std::move(access->token);
}

absl::StatusOr<OperatorAccess> FindOperatorAccess(const std::string& address) {
  // An address has no slash; a text with a slash is not a file of this folder.
  if (address.empty() || address.find('/') != std::string::npos) {
    return OperatorAccess{};
  }
  const absl::StatusOr<std::string> folder = Folder();
  const absl::StatusOr<std::string> path = OperatorTokenPath(address);
  if (!path.ok() || RemoveIfLeft(*folder, *path)) return OperatorAccess{};
  const auto lines = ReadSecretLines(*path);
  if (absl::IsNotFound(lines.status())) return OperatorAccess{};
  if (!lines.ok()) return lines.status();
  OperatorAccess access{.token = lines->front()};
  if (lines->size() == 3) {
    access.tls_folder = (*lines)[1];
    access.worker_tls_folder = (*lines)[2];
  }
  return access;
}

std::vector<std::string> PublishedAddresses() {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return {};
  std::vector<std::string> found, addresses;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(*folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::filesystem::path& file = entry->path();
    if (file.extension() == kExtension) found.push_back(file);
  }
  for (const std::filesystem::path file : found) {
    if (!RemoveIfLeft(*folder, file)) addresses.push_back(file.stem());
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

absl::StatusOr<PublishedToken> PublishedToken::Write(
    const std::string& address, const OperatorAccess& access) {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return folder.status();
  absl::Status written = MakePrivateDirectory(*folder);
  if (!written.ok()) return written;
  const absl::StatusOr<std::string> path = OperatorTokenPath(address);
  if (!path.ok()) return path.status();
  // Nobody else looks for this name; the lock comes with the file.
  const std::string unnamed = absl::StrCat(*path, ".new");
  written = WriteSecretFile(
      unnamed, absl::StrCat(access.token, "\n", access.tls_folder, "\n",
                            access.worker_tls_folder));
  if (!written.ok()) return written;
  PublishedToken published;
  published.lock_ =
      FileDescriptor(open(unnamed.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  const FileDescriptor names = LockFolder(*folder, LOCK_EX);
  if (!published.lock_.valid()) {
    written = Failed("open", unnamed);
  } else if (!names.valid()) {
    written = Failed("lock", *folder);
  } else if (flock(published.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    written = Failed("lock", unnamed);
  } else if (rename(unnamed.c_str(), path->c_str()) != 0) {
    written = Failed("rename", unnamed);
  }
  if (!written.ok()) {
    unlink(unnamed.c_str());
    return written;
  }
  published.path_ = *path;
  return published;
}

// A file of that name may be another launcher's if somebody removed ours.
PublishedToken::~PublishedToken() {
  if (path_.empty()) return;
  const FileDescriptor names =
      LockFolder(std::filesystem::path(path_).parent_path(), LOCK_EX);
  if (IsNamed(lock_, path_)) unlink(path_.c_str());
}

}  // namespace lockstep::launch

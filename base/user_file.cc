#include "base/user_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/link_owner.h"

namespace lockstep {
namespace {

// What is read at first; then as much as was read before. Most files that are
// read often, those of /proc and of cgroups, are smaller.
constexpr size_t kFirstRead = 4096;

absl::Status Failed(const std::string& path, absl::string_view what,
                    int error) {
  const std::string message =
      absl::StrCat(path, " cannot be ", what, ": ", std::strerror(error));
  return absl::Status(absl::ErrnoToStatusCode(error), message);
}

absl::Status IsNoDirectory(const FileDescriptor& file,
                           const std::string& path) {
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return Failed(path, "read", errno);
  if (!S_ISDIR(found.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is a directory, not a file"));
}

}  // namespace

absl::StatusOr<std::string> ReadUserFile(const std::string& path,
                                         size_t bytes_max) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Failed(path, "read", errno);
  if (absl::Status fit = IsNoDirectory(file, path); !fit.ok()) return fit;
  std::string text;
  while (text.size() <= bytes_max) {
    const size_t before = text.size();
    text.resize(std::min(before + std::max(before, kFirstRead), bytes_max + 1));
    const ssize_t got =
        read(file.get(), text.data() + before, text.size() - before);
    const int error = errno;
    text.resize(before + std::max<ssize_t>(got, 0));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) return Failed(path, "read", error);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is larger than ", bytes_max, " bytes"));
}

absl::Status WriteUserFile(const std::string& path, absl::string_view bytes) {
  absl::Status fit = CheckLinkOwner(path);
  if (!fit.ok()) return fit;
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return Failed(path, "written", errno);
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return Failed(path, "written", errno);
    bytes.remove_prefix(std::max<ssize_t>(written, 0));
  }
  return absl::OkStatus();
}

}  // namespace lockstep

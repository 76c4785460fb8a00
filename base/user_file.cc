#include "base/user_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

absl::Status NotAFile(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is a ", what, ", not a file"));
}

// A shell's pipe has no name of its own: it is in a file system of pipes.
bool IsNamedPipe(const FileDescriptor& file, const struct stat& found) {
  struct statfs system {};
  return S_ISFIFO(found.st_mode) && fstatfs(file.get(), &system) == 0 &&
         system.f_type != PIPEFS_MAGIC;
}

absl::StatusOr<FileDescriptor> OpenUserFile(const std::string& path, int flags,
                                            absl::string_view what) {
  // Without O_NONBLOCK, open() of a named pipe would wait for its other end.
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666));
  struct stat found {};
  if (!file.valid()) {
    const int error = errno;
    const bool is_pipe = error == ENXIO && stat(path.c_str(), &found) == 0 &&
                         S_ISFIFO(found.st_mode);
    if (is_pipe) return NotAFile(path, "named pipe");
    return Failed(path, what, error);
  }
  if (fstat(file.get(), &found) != 0) return Failed(path, what, errno);
  if (S_ISDIR(found.st_mode)) return NotAFile(path, "directory");
  if (IsNamedPipe(file, found)) return NotAFile(path, "named pipe");
  if (fcntl(file.get(), F_SETFL, flags & O_ACCMODE) != 0) {
    return Failed(path, what, errno);
  }
  return file;
}

}  // namespace

absl::StatusOr<std::string> ReadUserFile(const std::string& path,
                                         size_t bytes_max) {
  const auto file = OpenUserFile(path, O_RDONLY, "read");
  if (!file.ok()) return file.status();
  std::string text;
  while (text.size() <= bytes_max) {
    const size_t before = text.size();
    text.resize(std::min(before + std::max(before, kFirstRead), bytes_max + 1));
    const ssize_t got =
        read(file->get(), text.data() + before, text.size() - before);
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
  const auto file = OpenUserFile(path, O_WRONLY | O_CREAT | O_TRUNC, "written");
  if (!file.ok()) return file.status();
  while (!bytes.empty()) {
    const ssize_t written = write(file->get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return Failed(path, "written", errno);
    bytes.remove_prefix(std::max<ssize_t>(written, 0));
  }
  return absl::OkStatus();
}

}  // namespace lockstep

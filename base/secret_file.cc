#include "base/secret_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/file_descriptor.h"

namespace lockstep {
namespace {

constexpr size_t kSecretBytesMax = 4096;

absl::Status Failed(const char* call, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " ", path));
}

absl::Status IsPrivate(const struct stat& file, const std::string& path) {
  if (!S_ISREG(file.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a regular file"));
  }
  const bool own = file.st_uid == geteuid();
  if (!own && file.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s belongs to user %d, this process runs as user %d: a file with a "
        "secret must belong to its reader or to root",
        path, file.st_uid, geteuid()));
  }
  const mode_t forbidden = file.st_uid == 0 ? 0037 : 0077;
  if ((file.st_mode & forbidden) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s has mode %04o, so other users can read or change it: chmod 600", path,
      file.st_mode & 07777));
}

// The first kSecretBytesMax bytes.
absl::StatusOr<std::string> ReadPrivate(const std::string& path) {
  // Without O_NONBLOCK, open() of a FIFO would wait for a writer.
  const FileDescriptor fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Failed("open", path);
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) return Failed("stat", path);
  const absl::Status fit = IsPrivate(file, path);
  if (!fit.ok()) return fit;

  std::string text(kSecretBytesMax, '\0');
  const ssize_t got = read(fd.get(), text.data(), text.size());
  if (got < 0) return Failed("read", path);
  text.resize(static_cast<size_t>(got));
  return text;
}

// Without white space at the ends; those that are not empty then.
std::vector<std::string> LinesOf(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view part : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(part);
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

// OK if the first of `lines` is a whole line.
absl::Status CheckFirst(const std::vector<std::string>& lines,
                        absl::string_view text, const std::string& path) {
  if (lines.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has no token: it is empty"));
  }
  const bool whole = lines.size() > 1 || text.size() < kSecretBytesMax ||
                     absl::EndsWith(text, "\n");
  if (whole) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has no token: its first line has ", kSecretBytesMax,
                   " bytes or more"));
}

}  // namespace

std::string DrawSecret() {
  std::array<char, 32> bytes;
  Check(getentropy(bytes.data(), bytes.size()) == 0,
        "the kernel gives random bytes");
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadPrivate(path);
  if (!text.ok()) return text.status();
  const std::vector<std::string> lines = LinesOf(*text);
  const absl::Status whole = CheckFirst(lines, *text, path);
  if (!whole.ok()) return whole;
  return lines.front();
}

absl::StatusOr<std::vector<std::string>> ReadSecretLines(
    const std::string& path) {
  const absl::StatusOr<std::string> text = ReadPrivate(path);
  if (!text.ok()) return text.status();
  std::vector<std::string> lines = LinesOf(*text);
  const absl::Status whole = CheckFirst(lines, *text, path);
  if (!whole.ok()) return whole;
  if (text->size() == kSecretBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", kSecretBytesMax, " bytes or more: remove old tokens"));
  }
  return lines;
}

absl::Status CheckSecretFile(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return Failed("stat", path);
  return IsPrivate(file, path);
}

absl::Status WriteSecretFile(const std::string& path,
                             absl::string_view secret) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failed("replace", path);
  }
  const FileDescriptor fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
           0600));
  if (!fd.valid()) return Failed("create", path);
  const std::string line =
      absl::StrCat(secret, absl::EndsWith(secret, "\n") ? "" : "\n");
  const ssize_t written = write(fd.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  if (written >= 0) errno = ENOSPC;
  const absl::Status failed = Failed("write", path);
  unlink(path.c_str());
  return failed;
}

absl::Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return Failed("mkdir", path);
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return Failed("stat", path);
  const bool fit = S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
                   (found.st_mode & 0022) == 0;
  if (fit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s (mode %04o, user %d) is not a directory that only user %d can change",
      path, found.st_mode & 07777, found.st_uid, geteuid()));
}

}  // namespace lockstep

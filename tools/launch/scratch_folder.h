// A private folder for temporary files; the destructor removes it. It is made
// in TMPDIR, else /tmp, unless another user could replace it there. While it
// exists it is locked (flock), so that systemd-tmpfiles leaves it alone.

#ifndef LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_
#define LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace lockstep::launch {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    std::string pattern = parent / "lockstep-XXXXXX";
    if (error) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(
          "cannot make a temporary folder: TMPDIR: ", error.message()));
    } else if (MayBeReplaced(parent)) {
      status_ = absl::FailedPreconditionError(absl::StrCat(
          "cannot make a temporary folder in ", parent.string(),
          " (TMPDIR), where another user could put one in its place: name a "
          "folder of this user, or one with the sticky bit, such as /tmp"));
    } else if (mkdtemp(pattern.data()) == nullptr) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat("cannot make a temporary folder in ", parent.string(),
                       " (TMPDIR): ", std::strerror(errno)));
    } else {
      path_ = pattern;
      folder_ = FileDescriptor(
          open(pattern.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      flock(folder_.get(), LOCK_SH | LOCK_NB);
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Why the folder could not be created; else OK.
  const absl::Status& status() const { return status_; }
  // Empty if the folder could not be created.
  const std::filesystem::path& path() const { return path_; }

 private:
  // Whether another user than root may rename what this user makes in it.
  static bool MayBeReplaced(const std::filesystem::path& parent) {
    struct stat found {};
    if (stat(parent.c_str(), &found) != 0) return false;  // mkdtemp says why
    const bool own = found.st_uid == 0 || found.st_uid == geteuid();
    const bool shared = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return !own || (shared && (found.st_mode & S_ISVTX) == 0);
  }

  absl::Status status_;
  std::filesystem::path path_;
  FileDescriptor folder_;
};

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_SCRATCH_FOLDER_H_

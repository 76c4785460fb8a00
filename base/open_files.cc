#include "base/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace lockstep {
namespace {

std::string Limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return "the system's limit";
  }
  return absl::StrCat("its limit is ", limit.rlim_cur);
}

}  // namespace

int64_t OpenFilesLimit() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
                     limit.rlim_cur <= std::numeric_limits<int>::max();
  return known ? static_cast<int64_t>(limit.rlim_cur)
               : std::numeric_limits<int>::max();
}

void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // on failure the limit is unchanged
}

bool IsOutOfFiles(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS: return true;
    default: return false;
  }
}

bool CanOpenFile() {
  const FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return file.valid() || !IsOutOfFiles(errno);
}

absl::Status RequireOpenFiles(int more) {
  std::vector<FileDescriptor> files;
  for (int i = 0; i < more; ++i) {
    files.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (files.back().valid() || !IsOutOfFiles(errno)) continue;
    // The limit of the machine, not of this process.
    if (errno != EMFILE) return OutOfFiles(std::strerror(errno));
    const int64_t limit = OpenFilesLimit();
    return absl::ResourceExhaustedError(
        absl::StrCat("this process needs at least ", limit + more - i,
                     " open files (ulimit -n), its limit is ", limit));
  }
  return absl::OkStatus();
}

absl::Status OutOfFiles(absl::string_view said) {
  return absl::ResourceExhaustedError(
      absl::StrCat("this process can have no more open files (", Limit(),
                   "), or send more (", said, "; see ulimit -n)"));
}

}  // namespace lockstep

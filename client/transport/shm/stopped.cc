#include "client/transport/shm/stopped.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/user_file.h"

namespace lockstep::transport {
namespace {

constexpr size_t kStatBytesMax = 1 << 16;

// The pid in this process's pid namespace; 0 or negative if it has none.
int PidOf(int process) {
  std::ifstream info(absl::StrCat("/proc/self/fdinfo/", process));
  std::string word;
  while (info >> word) {
    int pid = 0;
    if (word == "Pid:") return info >> pid ? pid : 0;
  }
  return 0;
}

}  // namespace

bool IsStopped(int process) {
  const int pid = PidOf(process);
  if (pid <= 0) return false;
  // An error means that the process has ended.
  const std::string text =
      ReadUserFile(absl::StrCat("/proc/", pid, "/stat"), kStatBytesMax)
          .value_or("");
  // "1234 (a name, with any character) T ..."
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return false;
  }
  const char state = text[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace lockstep::transport

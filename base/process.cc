#include "base/process.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/user_file.h"

namespace lockstep {
namespace {

// The fields of /proc/PID/stat from field 3 (the state) on; empty if there is
// no such process. Field 2 is the program's name in parentheses and may have
// any characters.
std::vector<std::string> StatFieldsOf(pid_t pid) {
  constexpr size_t kStatBytesMax = 1 << 16;
  // An error: the process has ended, before or during the read.
  const std::string stat =
      ReadUserFile(absl::StrCat("/proc/", pid, "/stat"), kStatBytesMax)
          .value_or("");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(stat.substr(name_end + 2), ' ');
}

}  // namespace

std::string HostName() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return host[0] == '\0' ? "localhost" : host;
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t StartTimeOf(pid_t pid) {
  constexpr size_t kStartTime = 22 - 3;
  const std::vector<std::string> fields = StatFieldsOf(pid);
  uint64_t start_time = 0;
  if (fields.size() <= kStartTime ||
      !absl::SimpleAtoi(fields[kStartTime], &start_time)) {
    return 0;
  }
  return start_time;
}

bool IsStopped(pid_t pid) {
  const std::vector<std::string> fields = StatFieldsOf(pid);
  return !fields.empty() && (fields[0] == "T" || fields[0] == "t");
}

}  // namespace lockstep

#include "client/transport/shm/available_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/user_file.h"

namespace lockstep::transport {
namespace {

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

// Empty if there is no such file.
std::string Read(const std::string& path) {
  constexpr size_t kBytesMax = 1 << 20;
  return ReadUserFile(path, kBytesMax).value_or("");
}

// The number after `word` at the beginning of a line; `otherwise` if none.
uint64_t NumberAfter(const std::string& text, const std::string& word,
                     uint64_t otherwise) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    uint64_t number = 0;
    if (words >> first >> number && first == word) return number;
  }
  return otherwise;
}

// In a container, its own control group is mounted as the root.
uint64_t GroupsAvailable(const std::string& root) {
  std::string path = Read(root + "/proc/self/cgroup");
  const size_t unified = path.find("0::/");
  if (unified == std::string::npos) return kAll;
  path = path.substr(unified + 3, path.find('\n', unified) - unified - 3);
  uint64_t least = kAll;
  for (;;) {
    const std::string folder = root + "/sys/fs/cgroup" + path + "/memory.";
    least = std::min(
        least, GroupAvailable(Read(folder + "max"), Read(folder + "current"),
                              Read(folder + "stat")));
    if (path.empty()) return least;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

uint64_t MachineAvailable(const std::string& meminfo) {
  const uint64_t kib = NumberAfter(meminfo, "MemAvailable:", kAll);
  return kib > kAll / 1024 ? kAll : kib * 1024;
}

uint64_t GroupAvailable(const std::string& max, const std::string& current,
                        const std::string& stat) {
  std::istringstream limit(max);
  uint64_t most = 0;
  if (!(limit >> most)) return kAll;  // "max", or no such file
  const uint64_t used = std::strtoull(current.c_str(), nullptr, 10);
  const uint64_t reclaimable =
      std::min(used, NumberAfter(stat, "inactive_file", 0));
  const uint64_t held = used - reclaimable;
  return most > held ? most - held : 0;
}

uint64_t LargestFile() {
  rlimit file{};
  const bool limited =
      getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY;
  return limited ? file.rlim_cur : kAll;
}

uint64_t MemoryRoom::Least() const { return std::min({machine, group, file}); }

MemoryRoom FindMemoryRoom(const std::string& root) {
  return {.machine = MachineAvailable(Read(root + "/proc/meminfo")),
          .group = GroupsAvailable(root),
          .file = LargestFile()};
}

uint64_t AvailableMemory() { return FindMemoryRoom().Least(); }

}  // namespace lockstep::transport

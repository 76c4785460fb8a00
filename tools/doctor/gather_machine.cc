#include <dlfcn.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "base/user_file.h"
#include "client/transport/nccl/nccl_library.h"
#include "client/transport/shm/segment.h"
#include "tools/doctor/gather.h"

namespace lockstep::doctor {
namespace {

// Empty if there is no such file.
std::string ReadOrEmpty(const std::string& path) {
  constexpr size_t kBytesMax = 1 << 20;
  return ReadUserFile(path, kBytesMax).value_or("");
}

int MatchesOf(const std::string& pattern) {
  glob_t found{};
  const int count = glob(pattern.c_str(), 0, nullptr, &found) == 0
                        ? static_cast<int>(found.gl_pathc)
                        : 0;
  globfree(&found);
  return count;
}

ResourceLimit LimitOf(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return {kUnlimited, kUnlimited};
  const auto value = [](rlim_t value) {
    return value == RLIM_INFINITY ? kUnlimited : uint64_t{value};
  };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

SharedFolder ShmIn(const std::string& root) {
  const std::string path = root + "/dev/shm";
  struct statvfs found {};
  if (statvfs(path.c_str(), &found) != 0) return {};
  return {.exists = true,
          .writable = access(path.c_str(), W_OK | X_OK) == 0,
          .free_bytes = uint64_t{found.f_bavail} * found.f_frsize};
}

// The room in the control group of version 2, and in those above it.
uint64_t TasksLeft(const std::string& root) {
  std::string path = ReadOrEmpty(root + "/proc/self/cgroup");
  const size_t unified = path.find("0::/");
  if (unified == std::string::npos) return kUnlimited;
  path = path.substr(unified + 3, path.find('\n', unified) - unified - 3);
  uint64_t least = kUnlimited;
  for (;;) {
    const std::string folder = root + "/sys/fs/cgroup" + path + "/pids.";
    uint64_t most = 0;
    uint64_t used = 0;
    if (absl::SimpleAtoi(ReadOrEmpty(folder + "max"), &most) &&
        absl::SimpleAtoi(ReadOrEmpty(folder + "current"), &used)) {
      least = std::min(least, most > used ? most - used : 0);
    }
    if (path.empty()) return least;
    path.resize(path.rfind('/'));
  }
}

// "550.54.15" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15
// Thu ..." or "... Open Kernel Module for x86_64  550.54.15  Release ...".
std::string DriverVersionIn(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        absl::StrContains(word, ".")) {
      return word;
    }
  }
  return text.empty() ? "" : "of unknown version";
}

// The version of CUDA that the library of the driver knows. Initialises
// nothing.
absl::StatusOr<int> CudaOfDriver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(Printable(dlerror()));
  const auto get_version =
      reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) {
    return absl::FailedPreconditionError(
        "libcuda.so.1 does not tell its version");
  }
  return version;
}

absl::StatusOr<int> NcclOfWorkers() {
  const auto nccl = transport::nccl::LoadNccl(
      transport::nccl::NcclCandidates([](const std::string& name) {
        const char* const value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      }));
  if (!nccl.ok()) return nccl.status();
  int version = 0;
  if ((*nccl)->GetVersion(&version) == transport::nccl::NcclResult::kSuccess) {
    return version;
  }
  return absl::FailedPreconditionError("NCCL does not tell its version");
}

}  // namespace

MachineFacts GatherMachine(const std::string& root) {
  constexpr size_t kPage = 4096;
  return {.room = transport::FindMemoryRoom(root),
          .shared_memory = transport::Segment::Create(kPage, "doctor").status(),
          .shm = ShmIn(root),
          .open_files = LimitOf(RLIMIT_NOFILE),
          .processes = LimitOf(RLIMIT_NPROC),
          .locked_memory = LimitOf(RLIMIT_MEMLOCK),
          .core = LimitOf(RLIMIT_CORE),
          .tasks_left = TasksLeft(root),
          .is_root = geteuid() == 0,
          .has_rdma = MatchesOf(root + "/dev/infiniband/uverbs*") > 0};
}

GpuFacts GatherGpu(std::optional<bool> uses_gpu, const std::string& root) {
  GpuFacts gpu{.devices = MatchesOf(root + "/dev/nvidia[0-9]*"),
               .kernel_driver = DriverVersionIn(
                   ReadOrEmpty(root + "/proc/driver/nvidia/version")),
               .cuda = 0,
               .nccl = std::nullopt};
  if (gpu.devices > 0) gpu.cuda = CudaOfDriver();
  if (uses_gpu.value_or(gpu.devices > 0)) gpu.nccl = NcclOfWorkers();
  return gpu;
}

HostFacts GatherHost(const std::string& name, const std::string& root) {
  std::istringstream lines(ReadOrEmpty(root + "/etc/hosts"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address;
    words >> address;
    if (!absl::StartsWith(address, "127.") && address != "::1") continue;
    for (std::string alias; words >> alias;) {
      if (alias == name) return {.name = name, .loopback = address};
    }
  }
  return {.name = name, .loopback = ""};
}

}  // namespace lockstep::doctor

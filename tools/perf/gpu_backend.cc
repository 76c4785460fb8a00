#include "tools/perf/gpu_backend.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/gpu.h"
#include "tools/perf/device_backend.h"

namespace lockstep::perf {
namespace {

std::string Variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<Backend> MakeGpuBackend(const PerfOptions& options, int rank) {
  auto cuda = transport::nccl::LoadCuda(0);
  if (!cuda.ok()) return cuda.status();
  absl::Status found = transport::nccl::CheckGpu(**cuda);
  if (!found.ok()) return found;
  int devices = 0;
  (*cuda)->GetDeviceCount(&devices);
  if (options.ranks > devices) {
    setenv("NCCL_HOSTID", absl::StrCat("lockstep-perf-", rank).c_str(), 0);
  }
  auto tables = transport::nccl::LoadTables(Variable, rank % devices);
  if (!tables.ok()) return tables.status();
  return MakeDeviceBackend(*tables);
}

}  // namespace lockstep::perf

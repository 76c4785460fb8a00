// Prints the environment of the GPU programs: the device and its driver, and
// the NCCL library. For people; exits with 0 always.

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "client/transport/nccl/gpu.h"
#include "tests/gpu/device.h"

namespace lockstep::gpu {
namespace {

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// The path of a loaded library.
std::string PathOf(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
    return name;
  }
  return map->l_name;
}

void TellNccl() {
  for (const std::string& candidate :
       transport::nccl::NcclCandidates(Environment)) {
    const auto nccl = transport::nccl::LoadNccl({candidate});
    int version = 0;
    if (!nccl.ok()) continue;
    (*nccl)->GetVersion(&version);
    std::printf("NCCL %s: %s\n", transport::nccl::VersionName(version).c_str(),
                PathOf(candidate).c_str());
    return;
  }
  std::printf("NCCL: none is found\n");
}

void TellDevice() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  std::printf("driver: CUDA %d.%d\n", driver / 1000, driver % 1000 / 10);
  if (const std::string why = WhyNoGpu(); !why.empty()) {
    std::printf("device: none, %s\n", why.c_str());
    return;
  }
  cudaDeviceProp device;
  Require(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("device: %s, sm_%d%d, %zu MiB\n", device.name, device.major,
              device.minor, device.totalGlobalMem >> 20);
}

}  // namespace
}  // namespace lockstep::gpu

int main() {
  lockstep::gpu::TellNccl();
  lockstep::gpu::TellDevice();
  return 0;
}

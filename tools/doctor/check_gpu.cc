#include "absl/strings/str_cat.h"
#include "base/text/count.h"
#include "client/transport/nccl/nccl_version.h"
#include "tools/doctor/checks.h"

namespace lockstep::doctor {
namespace {

// "12.4" for 12040.
std::string CudaName(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

bool IsForHosts(const Facts& facts) {
  return facts.assignment.uses_gpu == false;
}

}  // namespace

Findings CheckDriver(const Facts& facts) {
  if (!facts.gpu) return {};
  const GpuFacts& gpu = *facts.gpu;
  if (gpu.devices == 0) {
    if (facts.assignment.uses_gpu != true) {
      return {{Severity::kOk, "there is none here"}};
    }
    return {{Severity::kError,
             gpu.kernel_driver.empty()
                 ? std::string("the job has transport: nccl, and no NVIDIA "
                               "driver is loaded here")
                 : absl::StrCat("the job has transport: nccl, and the driver ",
                                gpu.kernel_driver,
                                " shows this container no device"),
             "each worker fails in Session::Join",
             "in Kubernetes resources.limits of nvidia.com/gpu "
             "(deploy/kubernetes/components/gpu), with Docker --gpus all; on a "
             "host: nvidia-smi; or transport: auto in the spec"}};
  }
  const std::string devices = Count(gpu.devices, "GPU");
  if (!gpu.cuda.ok()) {
    if (IsForHosts(facts)) {
      return {{Severity::kOk, absl::StrCat(devices,
                                           ", which the job does not "
                                           "use")}};
    }
    return {{Severity::kError,
             absl::StrCat(devices,
                          ", and the driver's library cannot be "
                          "loaded: ",
                          gpu.cuda.status().message()),
             "CUDA programs see no device: workers fail in Session::Join",
             "NVIDIA_DRIVER_CAPABILITIES=compute,utility in the container, "
             "with NVIDIA's container toolkit on the node; on a host install "
             "the package of the driver that has libcuda.so.1"}};
  }
  if (facts.assignment.uses_gpu == true &&
      facts.assignment.workers > gpu.devices) {
    return {{Severity::kError,
             absl::StrCat(devices, " here, and ",
                          Count(facts.assignment.workers, "worker")),
             "a worker takes the GPU of its LOCAL_RANK: the others fail in "
             "Session::Join",
             absl::StrCat("lockstepctl run -n ", gpu.devices,
                          ", or more GPUs for this container")}};
  }
  return {{Severity::kOk,
           absl::StrCat(devices, ", driver ",
                        gpu.kernel_driver.empty() ? "of unknown version"
                                                  : gpu.kernel_driver,
                        " for CUDA up to ", CudaName(*gpu.cuda))}};
}

Findings CheckNccl(const Facts& facts) {
  if (!facts.gpu || !facts.gpu->nccl) return {};
  const absl::StatusOr<int>& nccl = *facts.gpu->nccl;
  if (!nccl.ok()) {
    return {{Severity::kError,
             absl::StrCat(
                 facts.gpu->devices == 0
                     ? std::string()
                     : absl::StrCat(Count(facts.gpu->devices, "GPU"), ", and "),
                 nccl.status().message()),
             "workers of a job with transport: nccl fail in Session::Join, "
             "unless their program links NCCL itself",
             "pip install nvidia-nccl-cu12 (or -cu13) into the Python "
             "environment of the workers, or the package libnccl2; "
             "LOCKSTEP_NCCL_LIBRARY=/path/to/libnccl.so.2 for another place"}};
  }
  const std::string name =
      absl::StrCat("NCCL ", transport::nccl::VersionName(*nccl));
  constexpr char kFix[] = "install another NCCL, 2.28.9 or later";
  if (absl::Status fit = transport::nccl::CheckVersion(*nccl); !fit.ok()) {
    return {{Severity::kError, std::string(fit.message()),
             "workers of a job with transport: nccl fail in Session::Join",
             kFix}};
  }
  if (absl::Status fit = transport::nccl::CheckRestart(*nccl); !fit.ok()) {
    return {{Severity::kWarning, std::string(fit.message()),
             "jobs run, but do not recover in their processes: after a loss "
             "all workers have to start again",
             kFix}};
  }
  return {{Severity::kOk, name}};
}

}  // namespace lockstep::doctor

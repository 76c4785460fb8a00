#include "client/transport/nccl/gpu.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/kernel_warmup.h"

namespace lockstep::transport::nccl {

absl::StatusOr<Tables> LoadTables(const Environment& environment, int device) {
  const auto cuda = LoadCuda(device);
  if (!cuda.ok()) return cuda.status();
  if (absl::Status found = CheckGpu(**cuda); !found.ok()) return found;
  const DeviceScope scope(**cuda);
  absl::Status entered = Check(**cuda, scope.result(), "SetDevice");
  if (!entered.ok()) return entered;
  const auto kernels = LoadKernels();
  if (!kernels.ok()) return kernels.status();
  const auto nccl = LoadNccl(NcclCandidates(environment));
  if (!nccl.ok()) return nccl.status();
  absl::Status warmed = WarmUpKernels(cuda->get(), kernels->get());
  if (!warmed.ok()) return warmed;
  return Tables{.nccl = *nccl, .cuda = *cuda, .kernels = *kernels};
}

absl::StatusOr<int> ChooseDevice(int wanted, const Environment& environment,
                                 CudaApi& cuda) {
  if (absl::Status found = CheckGpu(cuda); !found.ok()) return found;
  int count = 0;
  int device = 0;
  absl::Status asked =
      Check(cuda, cuda.GetDeviceCount(&count), "GetDeviceCount");
  asked.Update(Check(cuda, cuda.GetDevice(&device), "GetDevice"));
  if (!asked.ok()) return asked;
  std::string source = "JoinOptions::device";
  if (wanted >= 0) {
    device = wanted;
  } else if (const std::string rank = environment("LOCAL_RANK");
             !rank.empty() && count > 1) {
    source = "LOCAL_RANK";
    if (!absl::SimpleAtoi(rank, &device)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("LOCAL_RANK is '%s', not a number", rank));
    }
  }
  if (device >= 0 && device < count) return device;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is %d, and this process sees %d %s (CUDA_VISIBLE_DEVICES)", source,
      device, count, count == 1 ? "GPU" : "GPUs"));
}

absl::StatusOr<std::unique_ptr<Transport>> MakeGpuTransport(
    const Environment& environment, int wanted) {
  const auto any = LoadCuda(0);
  if (!any.ok()) return any.status();
  const auto device = ChooseDevice(wanted, environment, **any);
  if (!device.ok()) return device.status();
  const auto tables = LoadTables(environment, *device);
  if (!tables.ok()) return tables.status();
  return MakeTransport(*tables);
}

}  // namespace lockstep::transport::nccl

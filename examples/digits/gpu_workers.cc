#include "examples/digits/gpu_workers.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/session/identity.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::digits {

namespace nccl = transport::nccl;

absl::StatusOr<GpuPlaces> GpuPlaces::Find(int workers) {
  const auto cuda = nccl::LoadCuda(0);
  if (!cuda.ok()) return cuda.status();
  if (absl::Status there = nccl::CheckGpu(**cuda); !there.ok()) return there;
  const auto library =
      nccl::LoadNccl(nccl::NcclCandidates(session::ProcessEnvironment));
  if (!library.ok()) return library.status();
  int count = 0;
  (void)(*cuda)->GetDeviceCount(&count);  // CheckGpu has checked it before
  std::vector<std::string> gpus;
  const std::string visible =
      session::ProcessEnvironment("CUDA_VISIBLE_DEVICES");
  if (!visible.empty()) gpus = absl::StrSplit(visible, ',');
  for (int gpu = static_cast<int>(gpus.size()); gpu < count; ++gpu) {
    gpus.push_back(absl::StrCat(gpu));
  }
  gpus.resize(count);
  return GpuPlaces(std::move(gpus), workers);
}

void GpuPlaces::AddTo(
    int worker,
    std::vector<std::pair<std::string, std::string>>* environment) const {
  environment->emplace_back("CUDA_VISIBLE_DEVICES",
                            gpus_[worker % gpus_.size()]);
  if (shares()) {
    environment->emplace_back("NCCL_HOSTID", absl::StrCat("worker-", worker));
  }
}

std::string GpuPlaces::Describe() const {
  return absl::StrCat(
      " on ", gpus_.size(), gpus_.size() == 1 ? " GPU" : " GPUs",
      shares() ? ", which they share: each with an NCCL_HOSTID of its own, "
                 "over sockets"
               : "");
}

}  // namespace lockstep::digits

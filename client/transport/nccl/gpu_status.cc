#include "client/transport/nccl/gpu_status.h"

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace lockstep::transport::nccl {
namespace {

absl::StatusCode CodeOf(CudaResult result) {
  return result == CudaResult::kMemoryAllocation
             ? absl::StatusCode::kResourceExhausted
             : absl::StatusCode::kInternal;
}

absl::StatusCode CodeOf(NcclResult result) {
  return result == NcclResult::kRemoteError ||
                 result == NcclResult::kSystemError
             ? absl::StatusCode::kUnavailable
             : absl::StatusCode::kInternal;
}

}  // namespace

absl::Status Check(CudaApi& cuda, CudaResult result, std::string_view call) {
  if (result == CudaResult::kSuccess) return absl::OkStatus();
  (void)cuda.GetLastError();
  return absl::Status(
      CodeOf(result),
      absl::StrCat("cuda", AbslView(call), ": ", cuda.GetErrorString(result),
                   " (", static_cast<int>(result), ")"));
}

absl::Status Check(NcclApi& nccl, NcclResult result, std::string_view call,
                   NcclComm comm) {
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) {
    return absl::OkStatus();
  }
  const char* last = nccl.GetLastError(comm);
  return absl::Status(
      CodeOf(result),
      absl::StrCat("nccl", AbslView(call), ": ", nccl.GetErrorString(result),
                   " (", static_cast<int>(result), ")",
                   last == nullptr || *last == 0 ? "" : ": ",
                   last == nullptr ? "" : last));
}

}  // namespace lockstep::transport::nccl

#include "client/transport/nccl/nccl_version.h"

#include "absl/strings/str_cat.h"

namespace lockstep::transport::nccl {
namespace {

// Since then an abort in an NCCL group frees nothing before the group's end.
constexpr int kOldest = 22203;
constexpr int kNoRestartFirst = 22803;
constexpr int kNoRestartLast = 22808;

}  // namespace

absl::Status CheckVersion(int version) {
  if (version >= kOldest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL ", VersionName(version), " is too old: ", VersionName(kOldest),
      " or later is needed"));
}

absl::Status CheckRestart(int version) {
  if (version < kNoRestartFirst || version > kNoRestartLast) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL ", VersionName(version),
      " cannot connect again in a process that has aborted a communicator: "
      "start the process anew, or use NCCL ",
      VersionName(kNoRestartLast + 1)));
}

std::string VersionName(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

}  // namespace lockstep::transport::nccl

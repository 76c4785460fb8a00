#include "plan/ir.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::plan {

std::string_view Name(TransferKind kind) {
  switch (kind) {
    case TransferKind::kAllReduce: return "all-reduce";
    case TransferKind::kReduceScatter: return "reduce-scatter";
    case TransferKind::kAllGather: return "all-gather";
    case TransferKind::kBroadcast: return "broadcast";
    case TransferKind::kAllToAll: return "all-to-all";
    case TransferKind::kSend: return "send";
    case TransferKind::kRecv: return "recv";
    case TransferKind::kBarrier: return "barrier";
    case TransferKind::kAllReducePairs: return "all-reduce-pairs";
  }
  return "?";
}

std::string_view Name(LaneKind kind) {
  switch (kind) {
    case LaneKind::kGradient: return "gradient";
    case LaneKind::kPipeline: return "pipeline";
    case LaneKind::kHalo: return "halo";
    case LaneKind::kState: return "state";
    case LaneKind::kVerdict: return "verdict";
  }
  return "?";
}

std::string_view Name(LocalKind kind) {
  switch (kind) {
    case LocalKind::kCast: return "cast";
    case LocalKind::kCastFeedback: return "cast-feedback";
    case LocalKind::kWriteFlags: return "write-flags";
    case LocalKind::kReadFlags: return "read-flags";
    case LocalKind::kSumPairs: return "sum-pairs";
    case LocalKind::kZeroUnlessGiven: return "zero-unless-given";
    case LocalKind::kRescale: return "rescale";
    case LocalKind::kNorm: return "norm";
    case LocalKind::kWriteSummary: return "write-summary";
    case LocalKind::kReadSummary: return "read-summary";
  }
  return "?";
}

int64_t CountOf(const Transfer& transfer) {
  int64_t count = 1;
  for (const int64_t extent : transfer.shape) count *= extent;
  return count;
}

std::string Describe(const Transfer& transfer) {
  if (transfer.kind == TransferKind::kBarrier) return "barrier";
  if (IsPointToPoint(transfer.kind)) {
    return absl::StrFormat("%s of [%s] %s, tag %d", Name(transfer.kind),
                           absl::StrJoin(transfer.shape, ","),
                           Name(transfer.dtype), transfer.tag);
  }
  std::string text = absl::StrFormat("%s of %d %s", Name(transfer.kind),
                                     CountOf(transfer), Name(transfer.dtype));
  if (transfer.kind == TransferKind::kAllReduce ||
      transfer.kind == TransferKind::kReduceScatter) {
    absl::StrAppendFormat(&text, ", %s", Name(transfer.op));
  }
  if (transfer.root >= 0) absl::StrAppend(&text, ", root ", transfer.root);
  if (transfer.bucket >= 0)
    absl::StrAppend(&text, ", bucket ", transfer.bucket);
  return text;
}

std::string Describe(const Task& task) {
  return absl::StrFormat("%s of stage %d, micro-batch %d", Name(task.work),
                         task.stage, task.micro_batch);
}

}  // namespace lockstep::plan

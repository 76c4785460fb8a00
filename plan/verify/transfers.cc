#include "plan/verify/transfers.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "plan/shard.h"
#include "plan/verify/operations.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 48;

bool IsKind(TransferKind kind) { return Name(kind) != "?"; }

bool Reduces(TransferKind kind) {
  return kind == TransferKind::kAllReduce ||
         kind == TransferKind::kReduceScatter;
}

// Extents are not negative, and their product does not overflow.
bool IsShape(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kElementsMax / std::max<int64_t>(elements, 1)) {
      return false;
    }
    elements *= extent;
  }
  return true;
}

}  // namespace

std::string TransferCheck::FaultOf(int rank, LaneKind lane,
                                   const Transfer& t) const {
  std::string fault = MemberFault(rank, lane, t);
  // In this order: the later functions count elements.
  if (fault.empty()) fault = PayloadFault(t);
  if (fault.empty()) fault = OpFault(t);
  if (fault.empty()) fault = PartnerFault(rank, t);
  if (fault.empty() && t.divisor != 1 &&
      t.kind != TransferKind::kAllReducePairs) {
    fault =
        absl::StrFormat("has divisor %d, and is no sum in pairs", t.divisor);
  }
  if (fault.empty() && lane == LaneKind::kVerdict) {
    if (t.bucket == -1) return "";
    fault = absl::StrFormat("names bucket %d: a verdict has none", t.bucket);
  }
  if (fault.empty()) fault = BucketFault(lane, t);
  if (fault.empty() && t.group < 0) fault = "has a negative group";
  if (fault.empty() && t.bucket == -1 &&
      t.kind == TransferKind::kAllReducePairs) {
    fault = "is a sum in pairs without a bucket";
  }
  return fault;
}

std::string TransferCheck::OpsFault(int rank, const Transfer& t) const {
  return BucketOpsFault(plan_, t, roster_.PositionOf(rank, t.communicator));
}

std::string TransferCheck::MemberFault(int rank, LaneKind lane,
                                       const Transfer& t) const {
  if (!IsKind(t.kind)) return "is of no kind";
  if (t.communicator < 0 ||
      static_cast<size_t>(t.communicator) >= plan_.communicators.size()) {
    return absl::StrFormat("names communicator %d of %d", t.communicator,
                           plan_.communicators.size());
  }
  if (t.communicator == 0 && lane != LaneKind::kVerdict) {
    return "is on communicator 0, the verdict's";
  }
  if (t.communicator != 0 && lane == LaneKind::kVerdict) {
    return absl::StrFormat("is on communicator %s: a verdict is on 0",
                           plan_.communicators[t.communicator].name);
  }
  if (roster_.PositionOf(rank, t.communicator) < 0) {
    return absl::StrFormat(
        "is on communicator %s, of which the rank is no "
        "member",
        plan_.communicators[t.communicator].name);
  }
  return "";
}

int TransferCheck::SizeOf(const Transfer& t) const {
  return static_cast<int>(plan_.communicators[t.communicator].ranks.size());
}

std::string TransferCheck::PayloadFault(const Transfer& t) const {
  if (!IsTransportDType(t.dtype)) return "has no dtype";
  if (!IsShape(t.shape)) return "has a shape that is negative or too large";
  if (t.kind == TransferKind::kBarrier &&
      (!t.shape.empty() || t.dtype != DType::kF32)) {
    return "is a barrier with a shape or a dtype";
  }
  const bool divides = t.kind == TransferKind::kReduceScatter ||
                       t.kind == TransferKind::kAllToAll;
  if (divides && CountOf(t) % SizeOf(t) != 0) {
    return absl::StrFormat("divides %d elements among %d ranks", CountOf(t),
                           SizeOf(t));
  }
  return "";
}

std::string TransferCheck::OpFault(const Transfer& t) const {
  if (!Reduces(t.kind)) {
    return t.op == ReduceOp::kSum ? "" : "has an op and reduces nothing";
  }
  if (Name(t.op) == "?") return "has no op";
  if (t.op == ReduceOp::kMean && !IsFloat(t.dtype)) {
    return "is a mean of whole numbers";
  }
  return "";
}

std::string TransferCheck::PartnerFault(int rank, const Transfer& t) const {
  const bool has_root = t.kind == TransferKind::kBroadcast;
  if (has_root ? t.root < 0 || t.root >= SizeOf(t) : t.root != -1) {
    return absl::StrFormat("has root %d", t.root);
  }
  if (!IsPointToPoint(t.kind)) {
    return t.peer == -1 && t.tag == 0 ? "" : "has a peer or a tag";
  }
  if (t.peer < 0 || t.peer >= SizeOf(t)) {
    return absl::StrFormat("has peer %d of %d", t.peer, SizeOf(t));
  }
  return plan_.communicators[t.communicator].ranks[t.peer] == rank
             ? "is its own peer"
             : "";
}

std::string TransferCheck::BucketFault(LaneKind lane, const Transfer& t) const {
  if (t.bucket == -1) {
    return lane == LaneKind::kGradient
               ? "has no bucket: nothing runs it in a gradient lane"
               : "";
  }
  if (t.bucket < 0 || static_cast<size_t>(t.bucket) >= plan_.buckets.size()) {
    return absl::StrFormat("names bucket %d of %d", t.bucket,
                           plan_.buckets.size());
  }
  if (GathersParameters(plan_, t) &&
      (t.group != 0 || t.after_task >= 0 || !t.after.empty())) {
    return absl::StrFormat(
        "gathers the parameters of bucket %d, and begins the step: it cannot "
        "wait for anything, nor be of a group",
        t.bucket);
  }
  const Transfer asked = AskedOf(t);
  if (lane == LaneKind::kGradient && t == asked) return "";
  return absl::StrFormat(
      "is %s on communicator %d, but its bucket asks for %s on %d in a "
      "gradient lane%s",
      Describe(t), t.communicator, Describe(asked), asked.communicator,
      asked.group == t.group ? "" : ", in a group of its own");
}

Transfer TransferCheck::AskedOf(const Transfer& t) const {
  const Bucket& bucket = plan_.buckets[t.bucket];
  Transfer asked{.kind = TransferKind::kAllReduce,
                 .communicator = bucket.communicator,
                 .dtype = WireOf(bucket),
                 .shape = {bucket.total},
                 .op = bucket.op,
                 .bucket = t.bucket,
                 .group = t.group,
                 .after = t.after,
                 .after_task = t.after_task,
                 .before = t.before,
                 .then = t.then};
  const int64_t slice = bucket.flags_offset / std::max<int64_t>(SizeOf(t), 1);
  if (bucket.leaves > 0) {
    AskOfLeaves(t.kind, bucket, slice, asked);
  } else if (bucket.sharded) {
    AskOfSlices(t.kind, bucket, slice, asked);
  } else if (bucket.announced && bucket.op == ReduceOp::kMean && !bucket.wire) {
    const bool is_half =
        bucket.dtype == DType::kF16 || bucket.dtype == DType::kBF16;
    asked.dtype = is_half ? DType::kF32 : bucket.dtype;
    asked.op = ReduceOp::kSum;
  }
  return asked;
}

void TransferCheck::AskOfSlices(TransferKind kind, const Bucket& bucket,
                                int64_t slice, Transfer& asked) {
  const int group = asked.bucket + 1;
  if (kind == TransferKind::kAllGather) {
    asked.kind = TransferKind::kAllGather;
    asked.dtype = bucket.dtype;
    asked.op = ReduceOp::kSum;
    asked.shape = {slice};
    return;
  }
  asked.group = group;
  asked.shape = {static_cast<int64_t>(bucket.slots.size())};
  if (kind == TransferKind::kAllReduce) return;
  asked.kind = TransferKind::kReduceScatter;
  asked.shape = {bucket.flags_offset};
}

void TransferCheck::AskOfLeaves(TransferKind kind, const Bucket& bucket,
                                int64_t slice, Transfer& asked) {
  if (kind == TransferKind::kAllReduce) {
    asked.group = asked.bucket + 1;
    asked.shape = {static_cast<int64_t>(bucket.slots.size())};
    return;
  }
  asked.op = ReduceOp::kSum;
  if (kind == TransferKind::kAllReducePairs) {
    asked.kind = kind;
    asked.group = 0;
    asked.dtype = SumTypeOf(bucket);
    asked.divisor = bucket.op == ReduceOp::kMean ? bucket.leaves : 1;
    return;
  }
  if (kind == TransferKind::kAllGather) {
    asked.kind = TransferKind::kAllGather;
    asked.group = asked.bucket + 1;
    asked.shape = {slice};
    return;
  }
  asked.kind = TransferKind::kAllToAll;
  asked.group = 0;
  asked.dtype = SumTypeOf(bucket);
  asked.shape = {bucket.flags_offset};
}

}  // namespace lockstep::plan

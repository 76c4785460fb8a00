// The plan: for every rank what moves, in which order, between whom.
//
//   Plan ─┬─ communicators  groups of ranks: "verdict", "data@3", ...
//         ├─ parameters     what was registered: one for each name and group
//         ├─ buckets        gradients that travel together
//         ├─ pipeline       stages and schedule, if there are any
//         └─ ranks[r] ─┬─ lanes         ordered queues of transfers
//                      ├─ launch_order  one order over all lanes of the rank
//                      └─ tasks         what it computes between transfers
//
// A plan is a value. It is compiled from its input (compile.h), proven free of
// deadlock and type-correct (verify.h), named by its digest (digest.h) and then
// never changed: a rebuilt bucket layout is a plan with the next revision.
//
// All indices are positions in the vectors of this file; -1 means none.

#ifndef LOCKSTEP_PLAN_IR_H_
#define LOCKSTEP_PLAN_IR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/dtype.h"
#include "lockstep/mesh.h"
#include "lockstep/pipeline_spec.h"
#include "plan/schedule/schedule.h"
#include "protocol/ids.h"
#include "protocol/parameter.h"

namespace lockstep::plan {

// A group with a communicator of its own. A rank's number in it is its
// position. Different communicators may have the same ranks.
struct CommunicatorSpec {
  std::string name;        // unique in the plan: axes@lowest rank
  std::vector<int> ranks;  // world ranks, distinct
  bool operator==(const CommunicatorSpec&) const = default;
};

// Where a parameter's gradient lies in its bucket.
struct Slot {
  int parameter = -1;
  int64_t offset = 0;  // elements from the bucket's start
  int64_t count = 0;   // elements
  bool operator==(const Slot&) const = default;
};

// Gradients that travel in one reduction, contiguous in the arena:
//
//   | slot 0 |pad| slot 1 |pad| ... | 1 flag per slot |
//   0                               flags_offset       total
//
// Slots and flags start at multiples of 64 bytes; padding stays zero. A rank
// writes 1 into a slot's flag if it contributed a gradient, else 0: after the
// reduction a flag other than 0 says that somebody did. All ranks of the
// communicator hold it.
//
// A sharded bucket is scattered instead: its flags_offset elements are one
// slice after the other, one for each rank of the communicator, of equal counts
// (shard.h). A rank gets the sum of its slice alone. The flags are all-reduced
// beside it. The parameters, laid out alike, are gathered at the beginning of
// the next step.
//
// A bucket with leaves is summed in one tree, whatever the number of ranks:
// each rank sums its leaves, and the ranks' sums are added in pairs. Where the
// transport of the group can do that (PlanInput::transports), it is one
// all-reduce in pairs. Elsewhere slices of the sums are exchanged (all-to-all),
// each rank sums its slice of all ranks, and slices are gathered, with the
// flags beside them. Slices are as in a sharded bucket.
//
// With a wire dtype the gradients are cast to it, flags and padding too, and
// what travels are as many elements of that type.
struct Bucket {
  int communicator = -1;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kMean;
  std::vector<Slot> slots;
  int64_t flags_offset = 0;     // elements
  int64_t total = 0;            // elements: flags_offset + slots.size()
  std::optional<DType> wire;    // a half, shorter than dtype; none: no cast
  bool error_feedback = false;  // the cast's errors are added a step later
  bool sharded = false;         // each rank reduces and updates its slice
  int leaves = 0;  // of the tree that sums it, over all ranks; 0: no tree
  // Negotiated mode: a mean, also of a transfer, is over the ranks that
  // announced the gradient in the pass; the other ranks contribute zeros.
  bool announced = false;
  bool operator==(const Bucket&) const = default;
};

// In what a bucket with leaves is summed: halves in f32.
inline DType SumTypeOf(const Bucket& bucket) {
  return bucket.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// What the bucket's elements are on the wire.
inline DType WireOf(const Bucket& bucket) {
  return bucket.wire.value_or(bucket.dtype);
}

// The values are the wire's: never renumber.
enum class LaneKind : uint8_t {
  kGradient = 1,
  kPipeline = 2,
  kHalo = 3,
  kState = 4,
  kVerdict = 5
};

enum class TransferKind : uint8_t {
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kAllToAll = 5,
  kSend = 6,
  kRecv = 7,
  kBarrier = 8,
  kAllReducePairs = 9,  // neighbours are added first, then their sums, ...
};

// What a rank does by itself at one side of a transfer. The values are the
// wire's: never renumber.
enum class LocalKind : uint8_t {
  kCast = 1,             // gradients to the wire's dtype, or back
  kCastFeedback = 2,     // to the wire's dtype; what rounding took is kept
  kWriteFlags = 3,       // 1 or 0 for each slot, behind the gradients
  kReadFlags = 4,        // the reduced flags, for the host
  kSumPairs = 5,         // the rows that an all-to-all brought, in pairs
  kZeroUnlessGiven = 6,  // announced buckets: on ranks that announced nothing
  kRescale = 7,          // announced buckets: to the mean over who announced
  kNorm = 8,          // adds to a sum of squares, and counts what is not finite
  kWriteSummary = 9,  // verdict lane: what this rank says of its step
  kReadSummary = 10,  // verdict lane: what all ranks said, and the judgement
};

// A local operation on a bucket's memory: its gradients, or the copy of them
// that is on the wire. Before a transfer operations read and write gradients,
// and casts write the copy. Behind it they read and write the copy, until a
// cast has brought it back. Without casts both are the same memory.
struct LocalOp {
  LocalKind kind = LocalKind::kCast;
  DType from = DType::kF32;  // kCast, kCastFeedback, kSumPairs
  DType to = DType::kF32;    // likewise
  int64_t offset = 0;        // elements, from the bucket's start
  int64_t count = 0;         // elements
  int leaf = -1;  // kNorm: of the tree, to whose sum it adds; -1: to the rank's
  // kSumPairs: the sum is divided by this. Else 1: what a rescale divides by,
  // the number of ranks that announced the gradient, is of each pass.
  int divisor = 1;
  bool operator==(const LocalOp&) const = default;
};

// A transfer of the same rank: transfers[index] of lanes[lane].
struct TransferRef {
  int lane = -1;
  int index = -1;
  auto operator<=>(const TransferRef&) const = default;
};

struct Transfer {
  TransferKind kind = TransferKind::kAllReduce;
  int communicator = -1;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of this rank's input; of the output for kRecv
  ReduceOp op = ReduceOp::kSum;  // reductions only
  int root = -1;                 // kBroadcast: a rank of the communicator
  int peer = -1;                 // kSend, kRecv: a rank of the communicator
  uint64_t tag = 0;              // kSend, kRecv: equal on both sides
  int bucket = -1;               // gradient lane: what is reduced
  int group = 0;  // neighbours in a lane with the same number other
                  // than 0 progress together
  std::vector<TransferRef> after;  // complete before this one is launched
  int after_task = -1;  // of the rank's tasks: done before this is launched; a
                        // send's is the one whose result it sends
  int buffer = -1;      // pipeline lanes: see RankPlan
  int divisor = 1;      // kAllReducePairs: the sum is divided by this
  // In order. Of a group, what is before any of its members comes before all
  // of them, and what is behind any comes behind all.
  std::vector<LocalOp> before;
  std::vector<LocalOp> then;
  bool operator==(const Transfer&) const = default;
};

// A queue: its transfers are launched in order. A rank uses a communicator in
// one lane only, so the order on a communicator is the order in a lane.
//
// Every rank has a verdict lane. It is launched last, behind all other lanes of
// the step, as one group on communicator 0: the sums and the maxima of the
// ranks' summaries (plan/summary.h), and of buckets with leaves the sums of the
// leaves' norms.
struct Lane {
  LaneKind kind = LaneKind::kGradient;
  std::string name;  // unique in the rank: "gradient"
  std::vector<Transfer> transfers;
  bool operator==(const Lane&) const = default;
};

// What a rank computes for one micro-batch of one stage.
struct Task {
  Work work = Work::kForward;
  int stage = -1;  // of the model
  int micro_batch = -1;
  std::vector<TransferRef> after;  // complete before it begins
  bool operator==(const Task&) const = default;
};

// Tasks run one after the other, beside the lanes. The messages of a pipeline
// lie in numbered buffers of the rank, each of one type and either sent from or
// received into:
//
//   received  from its launch until the stage's last task of the micro-batch
//   sent      from the begin of the task that fills it until the send is done
//
// A later user of the same buffer waits for that: a receive by its after_task,
// a task by the send in its `after`.
struct RankPlan {
  std::vector<Lane> lanes;
  std::vector<TransferRef> launch_order;  // every transfer of every lane once
  std::vector<Task> tasks;
  bool operator==(const RankPlan&) const = default;
};

struct Plan {
  Revision revision{1};
  Mesh mesh;
  // [0] is the whole world, in rank order, and belongs to the verdict: only the
  // verdict lane uses it, so that it can be aborted before all others.
  std::vector<CommunicatorSpec> communicators;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  PipelineSpec pipeline;  // what its lanes and tasks were made of
  std::vector<RankPlan> ranks;
  bool operator==(const Plan&) const = default;
};

// "all-reduce", "send", ...; "gradient", ...; "?" for a value that is none.
std::string_view Name(TransferKind kind);
std::string_view Name(LaneKind kind);
std::string_view Name(LocalKind kind);

// Elements of the transfer's shape, which must be valid.
int64_t CountOf(const Transfer& transfer);

constexpr bool IsPointToPoint(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kRecv;
}

// Everything on which the two sides of a transfer must agree, for messages:
// "all-reduce of 1024 f32, sum, bucket 3", "send of [2,8] bf16, tag 7".
std::string Describe(const Transfer& transfer);

// "forward of stage 1, micro-batch 3".
std::string Describe(const Task& task);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_IR_H_

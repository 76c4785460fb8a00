// The plan: for every rank its transfers, their order and their peers.
//
//   Plan ─┬─ communicators  groups of ranks: "verdict", "data@3", ...
//         ├─ parameters     as registered: one for each name and group
//         ├─ buckets        gradients that are reduced together
//         ├─ pipeline       stages and schedule, if there are any
//         ├─ halos          fields that groups of ranks hold in blocks
//         └─ ranks[r] ─┬─ lanes         ordered queues of transfers
//                      ├─ launch_order  one order over all lanes of the rank
//                      ├─ tasks         computations between transfers
//                      └─ halos         what it copies from where
//
// A plan is a value. It is compiled from its input (compile.h), verified to be
// type-correct and free of deadlock (verify.h), named by its digest (digest.h),
// and never changed. A rebuilt bucket layout is a plan with the next revision.
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
#include "plan/halo/halo.h"
#include "plan/schedule/schedule.h"
#include "plan/state/state.h"
#include "protocol/ids.h"
#include "protocol/parameter.h"

namespace lockstep::plan {

// A group of ranks with its own communicator. The number of a rank in it is its
// position in `ranks`. Different communicators may have the same ranks.
struct CommunicatorSpec {
  std::string name;        // unique in the plan: axes@lowest rank
  std::vector<int> ranks;  // world ranks, distinct
  bool operator==(const CommunicatorSpec&) const = default;
};

// The range of one parameter's gradient in its bucket.
struct Slot {
  int parameter = -1;
  int64_t offset = 0;  // elements from the bucket's start
  int64_t count = 0;   // elements
  bool operator==(const Slot&) const = default;
};

// Gradients that are reduced in one operation, contiguous in the arena:
//
//   | slot 0 |pad| slot 1 |pad| ... | 1 flag per slot |
//   0                               flags_offset       total
//
// Slots and flags start at multiples of 64 bytes; padding stays zero. A rank
// writes 1 to a slot's flag if it contributed a gradient, else 0. After the
// reduction a flag other than 0 means that some rank contributed. All ranks of
// the communicator have the bucket.
//
// A sharded bucket is reduce-scattered instead: its flags_offset elements are
// slices of equal counts, one for each rank of the communicator, in order
// (shard.h). A rank receives the sum of its slice only. The flags are
// all-reduced separately. The parameters, in the same layout, are gathered at
// the start of the next step.
//
// A bucket with leaves is summed in one tree that does not depend on the number
// of ranks: each rank sums its leaves, and the ranks' sums are added in pairs.
// If the group's transport supports it (PlanInput::transports), this is one
// all-reduce in pairs. Else the ranks exchange slices of their sums
// (all-to-all), each rank sums its slice of all ranks, the slices are gathered,
// and the flags are all-reduced separately. Slices are as in a sharded bucket.
//
// With a wire dtype the gradients, flags and padding are cast to it, and as
// many elements of that type are sent.
struct Bucket {
  int communicator = -1;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kMean;
  std::vector<Slot> slots;
  int64_t flags_offset = 0;     // elements
  int64_t total = 0;            // elements: flags_offset + slots.size()
  std::optional<DType> wire;    // a half, shorter than dtype; none: no cast
  bool error_feedback = false;  // cast errors are added to the next step
  bool sharded = false;         // each rank reduces and updates its slice
  int leaves = 0;  // of the reduction tree, over all ranks; 0: no tree
  // Negotiated mode: a mean, also one that a transfer computes, is over the
  // ranks that announced the gradient in the pass; the other ranks contribute
  // zeros.
  bool announced = false;
  bool operator==(const Bucket&) const = default;
};

// The dtype in which a bucket with leaves is summed: f32 for halves.
inline DType SumTypeOf(const Bucket& bucket) {
  return bucket.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// The dtype of the bucket's elements on the wire.
inline DType WireOf(const Bucket& bucket) {
  return bucket.wire.value_or(bucket.dtype);
}

// The values are part of the wire format: never renumber.
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
  kAllReducePairs = 9,  // adjacent ranks first, then their sums, ...
};

// A local operation before or after a transfer. The values are part of the wire
// format: never renumber.
enum class LocalKind : uint8_t {
  kCast = 1,             // gradients to the wire's dtype, or back
  kCastFeedback = 2,     // to the wire's dtype; keeps the rounding error
  kWriteFlags = 3,       // 1 or 0 for each slot, after the gradients
  kReadFlags = 4,        // the reduced flags, for the host
  kSumPairs = 5,         // the rows received by an all-to-all, in pairs
  kZeroUnlessGiven = 6,  // announced buckets: on ranks that did not announce
  kRescale = 7,          // announced: to the mean over the ranks that did
  kNorm = 8,             // adds to a sum of squares, counts non-finite elements
  kWriteSummary = 9,     // verdict lane: this rank's step summary
  kReadSummary = 10,     // verdict lane: the reduced summary, and the verdict
};

// A local operation on a bucket's memory: its gradients, or their copy in the
// wire's dtype. Before a transfer, operations read and write gradients, and
// casts write the copy. After it, they read and write the copy, until a cast
// has converted it back. Without casts both are the same memory.
struct LocalOp {
  LocalKind kind = LocalKind::kCast;
  DType from = DType::kF32;  // kCast, kCastFeedback, kSumPairs
  DType to = DType::kF32;    // likewise
  int64_t offset = 0;        // elements, from the bucket's start
  int64_t count = 0;         // elements
  int leaf = -1;  // kNorm: the tree's leaf whose sum it adds to; -1: the rank's
  // kSumPairs: divisor of the sum. Else 1: the divisor of a rescale, the number
  // of ranks that announced the gradient, varies by pass.
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
  ReduceOp op = ReduceOp::kSum;    // reductions only
  int root = -1;                   // kBroadcast: a rank of the communicator
  int peer = -1;                   // kSend, kRecv: a rank of the communicator
  uint64_t tag = 0;                // kSend, kRecv: equal on both sides
  int bucket = -1;                 // gradient lane: the reduced bucket
  int halo = -1;                   // halo lane: the exchange, in Plan::halos
  int group = 0;                   // adjacent transfers of a lane with one
                                   // number other than 0 progress together
  std::vector<TransferRef> after;  // must complete before this one is launched
  int after_task = -1;  // a task of the rank that must end before this is
                        // launched; a send sends its result
  int buffer = -1;      // pipeline lanes: see RankPlan
  int divisor = 1;      // kAllReducePairs: the sum is divided by this
  // Local operations in order. In a group, all operations before any transfer
  // precede all transfers, and all operations after any follow all.
  std::vector<LocalOp> before;
  std::vector<LocalOp> then;
  bool operator==(const Transfer&) const = default;
};

// A queue: its transfers are launched in order. A rank uses a communicator in
// one lane only, so the order on a communicator is the order in a lane.
//
// A halo lane has two groups for each exchange h over its communicator: 2 h +
// 1, the messages of RankPlan::halos, as bytes, and 2 h + 2, those of the
// adjoint, in the other direction; each first sends. The tag is the group. The
// caller launches them, any number of times, in one order on all ranks of the
// communicator.
//
// Every rank has a verdict lane. It is launched last in the step, as one group
// on communicator 0: the sums and the maxima of the ranks' summaries
// (plan/summary.h), and for buckets with leaves the sums of the leaves' norms;
// or one all-gather of their records (plan/records.h).
struct Lane {
  LaneKind kind = LaneKind::kGradient;
  std::string name;  // unique in the rank: "gradient"
  std::vector<Transfer> transfers;
  bool operator==(const Lane&) const = default;
};

// The computation of one pass for one micro-batch of one stage.
struct Task {
  Work work = Work::kForward;
  int stage = -1;  // of the model
  int micro_batch = -1;
  std::vector<TransferRef> after;  // must complete before it begins
  bool operator==(const Task&) const = default;
};

// Tasks run one at a time, concurrently with the lanes. The messages of a
// pipeline are in numbered buffers of the rank. Each buffer has one type and is
// used only for sends or only for receives:
//
//   received  in use from its launch until the stage's last task of the
//             micro-batch
//   sent      in use from the start of the task that fills it until the send is
//             complete
//
// The next user of a buffer waits for the end of that use: a receive by its
// after_task, a task by the send in its `after`.
struct RankPlan {
  std::vector<Lane> lanes;
  std::vector<TransferRef> launch_order;  // every transfer of every lane once
  std::vector<Task> tasks;
  std::vector<HaloRoutes> halos;  // those it is a member of, in their order
  bool operator==(const RankPlan&) const = default;
};

struct Plan {
  Revision revision{1};
  Mesh mesh;
  // [0] is the whole world, in rank order. Only the verdict lane uses it, so it
  // can be aborted before all others.
  std::vector<CommunicatorSpec> communicators;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  PipelineSpec pipeline;  // the source of its lanes and tasks
  std::vector<Halo> halos;
  std::vector<RankPlan> ranks;
  std::vector<StateTensor> state;  // by first registration of the lowest rank
  bool operator==(const Plan&) const = default;
};

// "all-reduce", "send", ...; "gradient", ...; "?" for any other value.
std::string_view Name(TransferKind kind);
std::string_view Name(LaneKind kind);
std::string_view Name(LocalKind kind);

// The number of elements of the transfer's shape, which must be valid.
int64_t CountOf(const Transfer& transfer);

constexpr bool IsPointToPoint(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kRecv;
}

// All fields that both sides of a transfer must agree on, for messages:
// "all-reduce of 1024 f32, sum, bucket 3", "send of [2,8] bf16, tag 7".
std::string Describe(const Transfer& transfer);

// "forward of stage 1, micro-batch 3".
std::string Describe(const Task& task);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_IR_H_

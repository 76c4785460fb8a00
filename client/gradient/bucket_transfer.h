// A bucket's transfers, as its plan says: which collectives, of which bytes.
//
//   whole     [all-reduce: gradients, flags]
//   leaves    [all-reduce in pairs: sums, flags]    where they can, else
//             [all-to-all: slices of sums] - summed - [all-gather: gradients |
//             all-reduce: flags]
//   sharded   [reduce-scatter: gradients | all-reduce: flags]  as one operation
//             [all-gather: parameters]            at the next step's beginning
//
// All are in place. Enqueue and return; errors of the communicator.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_TRANSFER_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_TRANSFER_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/call.h"
#include "lockstep/communicator.h"
#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::gradient {

using Checks = std::vector<transport::CheckedPart>;

// Of a bucket with leaves, whose communicator sums in pairs: this rank's sums,
// and its flags behind them. A mean is over leaves. `checks` as of
// EnqueueReduction.
absl::Status EnqueueSumInPairs(Communicator& communicator,
                               const plan::Bucket& bucket, std::byte* sums,
                               Checks checks, Stream& stream);

// Of one whose communicator does not: this rank's sums, in slices; `slices`
// gets its own slice of each rank's. EnqueueReduction comes behind it, once
// they are summed.
absl::Status EnqueueExchange(Communicator& communicator,
                             const plan::Bucket& bucket, const std::byte* sums,
                             std::byte* slices, Stream& stream);

// `wire`: what travels of the gradients (bucket_store.h). `slice`: this rank's.
// `checks`: of a whole bucket, by a communicator that can: what this rank
// counts of it in the norm, and folds (checked_all_reduce.h).
absl::Status EnqueueReduction(Communicator& communicator,
                              const plan::Bucket& bucket,
                              const plan::Slice& slice, std::byte* wire,
                              Checks checks, Stream& stream);

// `parameters`: laid out like the bucket. Reads this rank's slice and writes
// the others': done again, it gives the same.
absl::Status EnqueueGather(Communicator& communicator,
                           const plan::Bucket& bucket, const plan::Slice& slice,
                           std::byte* parameters, Stream& stream);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_TRANSFER_H_

// Does a rank do by itself what its transfers need, and nothing else?

#ifndef LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_
#define LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_

#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// What is wrong with the local operations of a transfer, whose other fields
// have passed; nothing if they are right. They follow from its bucket:
//
//   before   zero-unless-given  if the bucket is announced
//            cast               if gradients are sent in another dtype
//            write-flags        if it reduces flags
//   behind   sum-pairs          of an exchange
//            rescale, cast      as before, back; of an announced mean of halves
//            read-flags
//            rescale            of other announced means without a wire
//            norm               any number, if it brings gradients; CheckNorms
//                               has the elements
//            zero-unless-given
//
// `position` is that of the rank in the bucket's communicator. Other transfers
// than those of buckets have no local operations.
std::string BucketOpsFault(const Plan& plan, const Transfer& transfer,
                           int position);

// The transfers of every rank's verdict lane.
std::vector<Transfer> VerdictNeeded(const Plan& plan);

// What is wrong with the given operations of one side, of which `needed` is
// right; nothing if they are equal. `other_side` is right on the other side.
std::string SideFault(const std::vector<LocalOp>& given,
                      const std::vector<LocalOp>& needed,
                      const std::vector<LocalOp>& other_side,
                      const std::string& side);

// Every element of every parameter is counted in the norm once, by one of the
// ranks that hold it or its replicas, and by that rank in its part of the
// bucket (norm_ranges.h); of a bucket with leaves, for the leaf of that part.
// The ranks of the first and the last stage hold replicas of what they share,
// whatever the parameters state. The tasks must have passed.
void CheckNorms(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_

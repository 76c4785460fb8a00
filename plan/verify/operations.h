// Checks that a rank has the local operations that its transfers need, and no
// others.

#ifndef LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_
#define LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_

#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/verify/diagnostics.h"

namespace lockstep::plan {

// The fault of the local operations of a transfer, whose other fields are
// valid; empty if there is none. The operations follow from its bucket:
//
//   before   zero-unless-given  if the bucket is announced
//            cast               if gradients are sent in another dtype
//            write-flags        if it reduces flags
//   after    sum-pairs          for an exchange
//            rescale, cast      as before, back; for announced means of halves
//            read-flags
//            rescale            for other announced means without a wire
//            norm               any number, if it receives gradients;
//                               CheckNorms checks the elements
//            zero-unless-given
//
// `position`: of the rank in the bucket's communicator. Only transfers of
// buckets have local operations.
std::string BucketOpsFault(const Plan& plan, const Transfer& transfer,
                           int position);

// The expected transfers of every rank's verdict lane. No leaves if steps end
// by records.
std::vector<Transfer> VerdictNeeded(const Plan& plan);

// The fault of the given operations of one side, compared with `needed`; empty
// if they are equal. `other_side` has the expected operations of the other
// side.
std::string SideFault(const std::vector<LocalOp>& given,
                      const std::vector<LocalOp>& needed,
                      const std::vector<LocalOp>& other_side,
                      const std::string& side);

// Every element of every parameter is counted in the norm once, by one of the
// ranks that have it or a replica, and by that rank in its part of the bucket
// (norm_ranges.h); in a bucket with leaves, for the leaf of that part. The
// ranks of the first and the last stage are replicas for shared parameters,
// whatever the parameters state. The tasks must have passed.
void CheckNorms(const Plan& plan, Diagnostics& diagnostics);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_OPERATIONS_H_

// Different registrations under one name, and their error message.
//
//   w: ranks 0-2: [128,64] f32 mean; rank 3: [128,65] f32 mean
//   model/w: ranks 0-2: [8] f32 mean; rank 3: missing (it has model_1/w)

#ifndef LOCKSTEP_PLAN_MISMATCH_H_
#define LOCKSTEP_PLAN_MISMATCH_H_

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "protocol/parameter.h"

namespace lockstep::plan {

// The registration of one rank under a name.
struct Claim {
  int rank;
  const Parameter* parameter;
};

struct ClaimsOfName {
  absl::string_view name;
  std::vector<Claim> claims;  // by rank
};

// The rank's position in `claims`, or -1.
int ClaimIndex(int rank, const std::vector<Claim>& claims);

// A name whose registrations differ, and the ranks concerned.
struct Mismatch {
  const ClaimsOfName* claims;
  std::set<int> ranks;
};

// InvalidArgument with all `mismatches` (at least one): the first 20 in full,
// with equal registrations grouped; the names of others up to 64 KiB; the
// number of the rest. If a rank lacks a name but has a similar one that also
// mismatches, the message names it.
absl::Status MismatchError(const std::vector<Mismatch>& mismatches);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_MISMATCH_H_

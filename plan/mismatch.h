// What ranks registered under one name when they should have registered the
// same, and how that is told.
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

// What one rank registered under a name.
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

// A name on which ranks disagree, and the ranks that it concerns.
struct Mismatch {
  const ClaimsOfName* claims;
  std::set<int> ranks;
};

// InvalidArgument with every one of `mismatches`, at least one: the first 20 in
// full, ranks that said the same put together, the others by name as far as 64
// KiB hold them, the rest as a number. Where a rank lacks a name and has one
// that looks like it, on which there is disagreement too, that one is named.
absl::Status MismatchError(const std::vector<Mismatch>& mismatches);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_MISMATCH_H_

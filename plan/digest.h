// The name of a plan, or of a membership: 128 bits of everything in it, as 32
// hexadecimal digits.
//
// Workers compute it from what they decoded, so that a digest all agree on
// means a plan all agree on, whatever carried it. Not a defence against
// forgery.

#ifndef LOCKSTEP_PLAN_DIGEST_H_
#define LOCKSTEP_PLAN_DIGEST_H_

#include <string>
#include <vector>

#include "plan/ir.h"
#include "protocol/protocol.h"

namespace lockstep::plan {

std::string DigestOf(const Plan& plan);

// `members` in rank order. session.proto says over which bytes.
std::string DigestOf(const std::vector<protocol::Member>& members);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_DIGEST_H_

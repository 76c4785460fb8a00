// The digest of a plan or of a membership: 128 bits over all its content, as 32
// hexadecimal digits.
//
// Workers compute it from the decoded plan, so equal digests on all workers
// mean equal plans, however they were transferred. Not a defence against
// forgery.

#ifndef LOCKSTEP_PLAN_DIGEST_H_
#define LOCKSTEP_PLAN_DIGEST_H_

#include <string>
#include <vector>

#include "plan/ir.h"
#include "protocol/types.h"

namespace lockstep::plan {

std::string DigestOf(const Plan& plan);

// `members` in rank order. session.proto defines the bytes.
std::string DigestOf(const std::vector<protocol::Member>& members);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_DIGEST_H_

// The name of a plan: 128 bits of everything in it, as 32 hexadecimal digits.
//
// Workers compute it from the plan they decoded, so that a digest all agree on
// means a plan all agree on, whatever carried it. Not a defence against
// forgery.

#ifndef LOCKSTEP_PLAN_DIGEST_H_
#define LOCKSTEP_PLAN_DIGEST_H_

#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

std::string DigestOf(const Plan& plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_DIGEST_H_

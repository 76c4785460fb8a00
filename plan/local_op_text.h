// Local operations as text: for the verifier's findings and `plan explain`.

#ifndef LOCKSTEP_PLAN_LOCAL_OP_TEXT_H_
#define LOCKSTEP_PLAN_LOCAL_OP_TEXT_H_

#include <string>

#include "plan/ir.h"

namespace lockstep::plan {

// "cast of elements 0 to 48 from f32 to bf16", "norm of elements 16 to 32 for
// leaf 3", "write-summary". The end of a range is exclusive.
std::string Describe(const LocalOp& op);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_LOCAL_OP_TEXT_H_

// The coordinator's codec of plans where a test links no protobuf: JSON.

#ifndef LOCKSTEP_TESTS_SUPPORT_PLANS_AS_TEXT_H_
#define LOCKSTEP_TESTS_SUPPORT_PLANS_AS_TEXT_H_

#include <string>

#include "plan/plan_json.h"
#include "server/core/compilation.h"

namespace lockstep {

inline core::PlanCodec PlansAsText() {
  return {.bytes = &plan::PlanToJson, .parse = [](const std::string& text) {
            return plan::PlanFromJson(text);
          }};
}

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_PLANS_AS_TEXT_H_

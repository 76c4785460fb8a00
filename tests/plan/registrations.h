// Small registrations, and the compiler's errors for invalid ones.

#ifndef LOCKSTEP_TESTS_PLAN_REGISTRATIONS_H_
#define LOCKSTEP_TESTS_PLAN_REGISTRATIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "plan/compile.h"

namespace lockstep::plan {

inline const Mesh kFour = {.axes = {{"data", 4}}};
inline const Mesh kTwoByTwo = {.axes = {{"data", 2}, {"pipe", 2}}};

inline Parameter P(const std::string& name, std::vector<int64_t> shape = {8}) {
  return {.name = name, .shape = std::move(shape)};
}

inline Parameter Over(const std::string& name, std::vector<std::string> axes) {
  return {.name = name, .shape = {8}, .axes = std::move(axes)};
}

inline std::string ErrorOf(const PlanInput& input) {
  const absl::StatusOr<Plan> plan = Compile(input);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_REGISTRATIONS_H_

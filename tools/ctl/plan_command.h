// `lockstepctl plan`: makes, judges and shows plans, without a coordinator.
//
// A plan file is what `compile -o` writes, or JSON (plan/plan_json.h): every
// command reads both. Each function returns the exit code: 0 ok, 1 refused.

#ifndef LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_

#include <string>
#include <vector>

namespace lockstep::ctl {

// Compiles and verifies the plan of a spec file and prints its digest.
int PlanCompile(const std::string& spec_file, const std::string& out);

// Prints "verified DIGEST", or "not verified" and why.
int PlanVerify(const std::string& file);

// Prints the timeline with equal stage times; draws it into `svg` if that is
// not empty. A plan that does not verify is not explained.
int PlanExplain(const std::string& file, const std::string& svg);

// Durations as people write them, one for all stages or one for each.
struct SimulateOptions {
  std::vector<std::string> forward = {"1ms"};
  std::vector<std::string> backward_input = {"1ms"};
  std::vector<std::string> backward_weight = {"1ms"};
  std::string latency = "0";   // of a transfer
  std::string bandwidth = "";  // of a rank, bytes a second; empty: unlimited
  std::string svg;
};

// Prints how long a step takes and what each rank does in it.
int PlanSimulate(const std::string& file, const SimulateOptions& options);

// Writes the plan as JSON; to the standard output if `out` is empty.
int PlanExport(const std::string& file, const std::string& out);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_

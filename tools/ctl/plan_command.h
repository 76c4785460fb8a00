// `lockstepctl plan`: compiles, verifies and shows plans, without a
// coordinator.
//
// A plan file is the output of `compile -o`, or JSON (plan/plan_json.h): every
// command reads both. Each function returns the exit code: 0 ok, 1 refused.

#ifndef LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_

#include <string>
#include <vector>

namespace lockstep::ctl {

// Compiles and verifies the plan of a spec file and prints its digest.
int PlanCompile(const std::string& spec_file, const std::string& out);

// Prints "verified DIGEST", or "not verified" with the reason.
int PlanVerify(const std::string& file);

// Prints the timeline with equal stage times, and draws it into `svg` unless
// that is empty. A plan that does not verify is refused.
int PlanExplain(const std::string& file, const std::string& svg);

// Durations as text such as "5ms": one for all stages, or one per stage.
struct SimulateOptions {
  std::vector<std::string> forward = {"1ms"};
  std::vector<std::string> backward_input = {"1ms"};
  std::vector<std::string> backward_weight = {"1ms"};
  std::string latency = "0";   // per transfer
  std::string bandwidth = "";  // per rank, bytes per second; empty: unlimited
  std::string svg;
};

// Prints the duration of a step and what each rank does in it.
int PlanSimulate(const std::string& file, const SimulateOptions& options);

// Writes the plan as JSON, to standard output if `out` is empty.
int PlanExport(const std::string& file, const std::string& out);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PLAN_COMMAND_H_

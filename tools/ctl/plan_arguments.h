// The command-line arguments of `lockstepctl plan`.

#ifndef LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "tools/ctl/plan_command.h"

namespace lockstep::ctl {

// Adds the subcommand `plan` and its own subcommands; Run executes the chosen
// one.
class PlanArguments {
 public:
  void AddTo(const CommandLine& line) {
    const ProgramCommand plan =
        line.AddCommand("plan", "Make, judge and show plans, offline");
    plan.RequireCommand();
    AddCompile(plan);
    AddOf(plan, "verify", "Prove that a plan can run",
          [this] { return PlanVerify(file_); });
    AddOf(plan, "explain", "Show the timeline of a plan", [this] {
      return PlanExplain(file_, simulate_.svg);
    }).Add("--svg", &simulate_.svg, "Draw it into this file");
    AddSimulate(plan);
    AddOf(plan, "export", "Write a plan as JSON", [this] {
      return PlanExport(file_, out_);
    }).Add("-o,--output", &out_, "[the standard output]");
  }

  bool given() const { return run_ != nullptr; }
  int Run() const { return run_(); }

 private:
  void AddCompile(const ProgramCommand& plan) {
    const ProgramCommand compile =
        plan.AddCommand("compile", "Make the plan of a job spec");
    compile.Add("-f,--spec", &file_, "YAML or JSON").Required();
    compile.Add("-o,--output", &out_, "The plan").Required();
    compile.WhenGiven(
        [this] { run_ = [this] { return PlanCompile(file_, out_); }; });
  }

  ProgramCommand AddOf(const ProgramCommand& plan, const std::string& name,
                       const std::string& description,
                       std::function<int()> run) {
    const ProgramCommand command = plan.AddCommand(name, description);
    command.Add("FILE", &file_, "A plan, or one as JSON").Required();
    command.WhenGiven([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  void AddSimulate(const ProgramCommand& plan) {
    const ProgramCommand command =
        AddOf(plan, "simulate", "Play a plan with given times",
              [this] { return PlanSimulate(file_, simulate_); });
    const auto add_times = [&](const char* flag, std::vector<std::string>* of,
                               const char* what) {
      command.Add(flag, of, what).SeparatedBy(',').ShowDefault();
    };
    add_times("--forward", &simulate_.forward,
              "Of all stages, or of each: 3ms,4ms,...");
    add_times("--backward-input", &simulate_.backward_input, "As --forward");
    add_times("--backward-weight", &simulate_.backward_weight, "As --forward");
    command.Add("--latency", &simulate_.latency, "Of a transfer").ShowDefault();
    command.Add("--bandwidth", &simulate_.bandwidth,
                "Of a rank, bytes a second: 10GiB [unlimited]");
    command.Add("--svg", &simulate_.svg, "Draw the timeline");
  }

  std::string file_;
  std::string out_;
  SimulateOptions simulate_;
  std::function<int()> run_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_

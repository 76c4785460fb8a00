// The words of `lockstepctl plan` on the command line.

#ifndef LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "tools/ctl/plan_command.h"

namespace lockstep::ctl {

// Adds the subcommand and its own; Run does what was chosen.
class PlanArguments {
 public:
  void AddTo(CLI::App& app) {
    CLI::App* plan =
        app.add_subcommand("plan", "Make, judge and show plans, offline");
    plan->require_subcommand(1);
    AddCompile(*plan);
    AddOf(*plan, "verify", "Prove that a plan can run",
          [this] { return PlanVerify(file_); });
    AddOf(*plan, "explain", "Show the timeline of a plan", [this] {
      return PlanExplain(file_, simulate_.svg);
    })->add_option("--svg", simulate_.svg, "Draw it into this file");
    AddSimulate(*plan);
    AddOf(*plan, "export", "Write a plan as JSON", [this] {
      return PlanExport(file_, out_);
    })->add_option("-o,--output", out_, "[the standard output]");
  }

  int Run() const { return run_(); }

 private:
  void AddCompile(CLI::App& plan) {
    CLI::App* compile =
        plan.add_subcommand("compile", "Make the plan of a job spec");
    compile->add_option("-f,--spec", file_, "YAML or JSON")->required();
    compile->add_option("-o,--output", out_, "The plan")->required();
    compile->callback(
        [this] { run_ = [this] { return PlanCompile(file_, out_); }; });
  }

  CLI::App* AddOf(CLI::App& plan, const std::string& name,
                  const std::string& description, std::function<int()> run) {
    CLI::App* command = plan.add_subcommand(name, description);
    command->add_option("FILE", file_, "A plan, or one as JSON")->required();
    command->callback([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  void AddSimulate(CLI::App& plan) {
    CLI::App* command =
        AddOf(plan, "simulate", "Play a plan with given times",
              [this] { return PlanSimulate(file_, simulate_); });
    const auto add_times = [&](const char* flag, std::vector<std::string>& of,
                               const char* what) {
      command->add_option(flag, of, what)
          ->delimiter(',')
          ->capture_default_str();
    };
    add_times("--forward", simulate_.forward,
              "Of all stages, or of each: 3ms,4ms,...");
    add_times("--backward-input", simulate_.backward_input, "As --forward");
    add_times("--backward-weight", simulate_.backward_weight, "As --forward");
    command->add_option("--latency", simulate_.latency, "Of a transfer")
        ->capture_default_str();
    command->add_option("--bandwidth", simulate_.bandwidth,
                        "Of a rank, bytes a second: 10GiB [unlimited]");
    command->add_option("--svg", simulate_.svg, "Draw the timeline");
  }

  std::string file_;
  std::string out_;
  SimulateOptions simulate_;
  std::function<int()> run_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PLAN_ARGUMENTS_H_

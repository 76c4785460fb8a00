// The command-line arguments of `lockstepctl checkpoint`.

#ifndef LOCKSTEP_TOOLS_CTL_CHECKPOINT_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_CHECKPOINT_ARGUMENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/command_line.h"
#include "tools/ctl/checkpoint_command.h"
#include "tools/ctl/checkpoint_copy_command.h"

namespace lockstep::ctl {

// Adds the subcommand `checkpoint` and its own subcommands; Run executes the
// chosen one.
class CheckpointArguments {
 public:
  void AddTo(const CommandLine& line) {
    const ProgramCommand checkpoint =
        line.AddCommand("checkpoint",
                        "Show, verify, prune, consolidate and import "
                        "checkpoints");
    checkpoint.RequireCommand();
    AddJson(AddOf(checkpoint, "list", "List the checkpoints in a directory",
                  [this] { return CheckpointList(path_, json_); }));
    const ProgramCommand show =
        AddOf(checkpoint, "show", "Show the newest, or the given one",
              [this] { return CheckpointShow(path_, step_, json_); });
    AddJson(show);
    AddStep(show);
    AddVerify(checkpoint);
    AddPrune(checkpoint);
    AddConsolidate(checkpoint);
    AddImport(checkpoint);
  }

  bool given() const { return run_ != nullptr; }
  int Run() const { return run_(); }

 private:
  ProgramCommand AddOf(const ProgramCommand& checkpoint,
                       const std::string& name, const std::string& description,
                       std::function<int()> run) {
    const ProgramCommand command = checkpoint.AddCommand(name, description);
    command
        .Add("DIR", &path_,
             "The folder of a checkpoint, a directory of such folders, or one "
             "that has them in \"checkpoints\"")
        .Required();
    command.WhenGiven([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  void AddJson(const ProgramCommand& command) {
    command.AddFlag("--json", &json_, "Print JSON");
  }

  CommandLineOption AddStep(const ProgramCommand& command) {
    return command.Add("--step", &step_, "Of this step").NotNegative();
  }

  void AddVerify(const ProgramCommand& checkpoint) {
    const ProgramCommand verify =
        AddOf(checkpoint, "verify", "Read all of the newest, or the given one",
              [this] {
                return all_ ? CheckpointVerifyAll(path_)
                            : CheckpointVerify(path_, step_);
              });
    const CommandLineOption all =
        verify.AddFlag("--all", &all_, "Each one in the directory");
    AddStep(verify).Excludes(all);
  }

  void AddPrune(const ProgramCommand& checkpoint) {
    const ProgramCommand prune =
        AddOf(checkpoint, "prune",
              "Remove old checkpoints, and saves that were given up",
              [this] { return CheckpointPrune(path_, prune_); });
    prune.Add("--keep-last", &prune_.retention.keep_last, "The newest ones")
        .Required()
        .Between(1, INT64_MAX);
    prune
        .Add("--keep-every", &prune_.retention.keep_every,
             "Those whose step is a multiple; 0: none")
        .NotNegative()
        .ShowDefault();
    prune.AddFlag("--dry-run", &prune_.dry_run, "Only say what would go");
  }

  void AddConsolidate(const ProgramCommand& checkpoint) {
    const ProgramCommand consolidate =
        AddOf(checkpoint, "consolidate",
              "Write all tensors of the newest into one safetensors file",
              [this] { return CheckpointConsolidate(path_, target_, copy_); });
    consolidate
        .Add("OUT", &target_,
             "The new file, or a directory for model.safetensors")
        .Required();
    consolidate.Add("--step", &copy_.step, "Of this step").NotNegative();
    consolidate.Add("--check", &copy_.check, "Which hashes are compared")
        .OneOf({"full", "sampled", "off"})
        .ShowDefault();
  }

  void AddImport(const ProgramCommand& checkpoint) {
    const ProgramCommand import = checkpoint.AddCommand(
        "import", "Make a checkpoint of a safetensors file");
    import
        .Add("FILE", &path_,
             "A safetensors file, a folder that boostr has written, or a "
             "checkpoint as for other commands")
        .Required();
    import
        .Add("DIR", &target_,
             "The directory of a job: the checkpoint is made in its folder "
             "\"checkpoints\"")
        .Required();
    import.Add("--step", &copy_.step, "Of the checkpoint").NotNegative();
    import.WhenGiven([this] {
      run_ = [this] { return CheckpointImport(path_, target_, copy_);
  };
    });
    }  // namespace lockstep::ctl

    std::string path_;
    std::string target_;
    CopyCheckpointOptions copy_;
    int64_t step_ = -1;
    bool json_ = false;
    bool all_ = false;
    PruneOptions prune_;
    std::function<int()> run_;
    }
    ;

    }  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CHECKPOINT_ARGUMENTS_H_

// The command-line arguments of `lockstepctl journal`.

#ifndef LOCKSTEP_TOOLS_CTL_JOURNAL_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_JOURNAL_ARGUMENTS_H_

#include <functional>
#include <string>

#include "base/command_line.h"
#include "tools/ctl/journal_command.h"

namespace lockstep::ctl {

// Adds the subcommand `journal` and its own subcommands; Run executes the one
// that was given.
class JournalArguments {
 public:
  void AddTo(const CommandLine& line) {
    const ProgramCommand journal = line.AddCommand(
        "journal", "Verify, print or repair a daemon's journal");
    journal.RequireCommand();
    AddOf(journal, "verify", "Read all of it: exit code 1 if it is damaged",
          [this] { return JournalVerify(folder_); });
    AddOf(journal, "dump", "Print its records", [this] {
      return JournalDump(folder_, json_);
    }).AddFlag("--json", &json_, "An object for each record, one a line");
    AddOf(journal, "repair",
          "Keep what is intact up to the damage; the old files stay beside it",
          [this] { return JournalRepair(folder_); });
  }

  bool given() const { return run_ != nullptr; }
  int Run() const { return run_(); }

 private:
  ProgramCommand AddOf(const ProgramCommand& journal, const std::string& name,
                       const std::string& description,
                       std::function<int()> run) {
    ProgramCommand command = journal.AddCommand(name, description);
    command.Add("DIR", &folder_, "The folder of lockstepd --journal")
        .Required();
    command.WhenGiven([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  std::string folder_;
  bool json_ = false;
  std::function<int()> run_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_JOURNAL_ARGUMENTS_H_

// The command-line arguments of `lockstepctl certs`.

#ifndef LOCKSTEP_TOOLS_CTL_CERTS_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_CERTS_ARGUMENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "tools/ctl/certs_command.h"

namespace lockstep::ctl {

// Adds the subcommand `certs` and its own subcommands; Run executes the one
// that was given.
class CertsArguments {
 public:
  void AddTo(const CommandLine& line) {
    const ProgramCommand certs = line.AddCommand(
        "certs", "Make the certificates of coordinator, workers and operators");
    certs.RequireCommand();
    AddOf(certs, "init", "Make an authority, and a folder for each side",
          [this] { return CertsInit(options_); });
    AddOf(certs, "renew", "Make new keys and certificates from the authority",
          [this] { return CertsRenew(options_); });
    const ProgramCommand issue =
        AddOf(certs, "issue", "Make a folder DIR/NAME for one more client",
              [this] { return CertsIssue(options_); });
    issue.Add("NAME", &options_.name, "In the certificate, and of the folder")
        .Required();
    issue.Add("--role", &options_.role, "What the client may do")
        .OneOf({"worker", "operator"})
        .ShowDefault();
  }

  bool given() const { return run_ != nullptr; }
  int Run() const { return run_(); }

 private:
  ProgramCommand AddOf(const ProgramCommand& certs, const std::string& name,
                       const std::string& description,
                       std::function<int()> run) {
    ProgramCommand command = certs.AddCommand(name, description);
    command.Add("DIR", &options_.folder, "Where they are").Required();
    if (name != "issue") {
      command
          .Add(
              "--host", &options_.hosts,
              "Names and addresses at which the coordinator is reached besides "
              "this host's name and loopback, comma separated [none; renew: "
              "as before]")
          .SeparatedBy(',');
    }
    command.Add("--days", &options_.days, "How long they are valid")
        .Between(1, 3650)
        .ShowDefault();
    command.WhenGiven([this, run = std::move(run)] { run_ = run; });
    return command;
  }

  CertsOptions options_;
  std::function<int()> run_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CERTS_ARGUMENTS_H_

// lockstepctl: operate a coordinator, launch workers on this machine, and work
// with plans offline.
//
// Exit codes: 0 ok, 1 refused, 2 usage, 3 unreachable; `run` has its workers'.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/open_files.h"
#include "base/secret_file.h"
#include "base/standard_streams.h"
#include "plan/words/token_text.h"
#include "plan/words/utf8.h"
#include "proto/grpc_process.h"
#include "tools/ctl/commands.h"
#include "tools/ctl/plan_arguments.h"
#include "tools/ctl/run_command.h"
#include "tools/launch/operator_token.h"

namespace {

constexpr char kVersion[] = "lockstepctl " LOCKSTEP_VERSION;
constexpr int kUsage = 2;
constexpr double kGraceSecondsMax = 1e6;

struct Arguments {
  lockstep::ctl::CommonOptions common;
  lockstep::ctl::RunOptions run;
  std::string job;
  std::string spec_file;
  std::string token_file;
  std::string reason;
  bool now = false;
  double grace_seconds = 10;
};

CLI::App* AddQuery(CLI::App& app, Arguments& arguments, const std::string& name,
                   const std::string& description, bool about_a_job) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", arguments.common.json, "Print JSON");
  if (about_a_job) {
    command->add_option("JOB", arguments.job,
                        "May be left out if there is one");
  }
  return command;
}

void AddCommands(CLI::App& app, Arguments& arguments) {
  const auto add = [&](const char* name, const char* description) {
    CLI::App* command = app.add_subcommand(name, description);
    command->add_option("JOB", arguments.job,
                        "May be left out if there is one");
    command->add_option("--reason", arguments.reason,
                        "For the history and the workers");
    return command;
  };
  add("pause", "Have all ranks wait after one common step");
  add("resume", "Have them go on");
  add("drain", "Have all workers leave after one common step; the job stays");
  add("stop", "End the job after one common step")
      ->add_flag("--now", arguments.now, "Do not wait for the step to end");
  add("rebuild", "Cut the buckets anew, as gradients become ready");
}

// What the chosen subcommand asks of a job, if it is such a one.
std::optional<lockstep::JobCommand> Asked(const CLI::App& app) {
  using lockstep::JobCommand;
  for (const JobCommand command :
       {JobCommand::kPause, JobCommand::kResume, JobCommand::kStop,
        JobCommand::kDrain, JobCommand::kRebuild}) {
    if (app.got_subcommand(std::string(Name(command)))) return command;
  }
  return std::nullopt;
}

void AddRun(CLI::App& app, Arguments& arguments) {
  CLI::App* run = app.add_subcommand("run", "Start the workers of a job here");
  run->add_option("-n,--workers", arguments.run.workers,
                  "How many, on this host")
      ->required()
      ->check(CLI::Range(1, 4096));
  run->add_option("--job", arguments.run.job,
                  "Its name [the spec's, else the program's]");
  run->add_option("-f,--spec", arguments.run.spec_file,
                  "Job spec, YAML or JSON")
      ->check(CLI::ExistingFile);
  run->add_option("--nodes", arguments.run.nodes,
                  "Hosts of the job: the same command runs on each, with "
                  "--address and its --node-rank")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  run->add_option("--node-rank", arguments.run.node_rank,
                  "Of this host, from 0")
      ->capture_default_str()
      ->check(CLI::Range(0, 4095));
  run->add_option("--host-address", arguments.run.host_address,
                  "At which other hosts reach this one [from which it reaches "
                  "the coordinator]")
      ->envname("LOCKSTEP_HOST_ADDRESS");
  run->add_option("--restarts", arguments.run.restarts,
                  "How often all workers of this host start again after one "
                  "has failed")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  run->add_flag("--label", arguments.run.label,
                "Name the worker before each line");
  run->add_option("--grace", arguments.grace_seconds,
                  "Seconds that workers get to end by themselves")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            double seconds = 0;
            const bool fits = absl::SimpleAtod(text, &seconds) &&
                              seconds >= 0 && seconds <= kGraceSecondsMax;
            return fits ? "" : text + " is no number of seconds up to 1e6";
          },
          "SECONDS"));
  run->add_option("PROGRAM", arguments.run.program, "-- PROGRAM ARGS...")
      ->required()
      ->expected(1, -1);
}

int Refuse(const absl::Status& status, int code = kUsage) {
  absl::FPrintF(stderr, "lockstepctl: %s\n",
                lockstep::Printable(status.message()));
  return code;
}

bool IsAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return false;
  }
  // An IPv6 address has brackets; gRPC knows schemes, too ("dns:///host:1").
  const absl::string_view host = text.substr(0, colon);
  return host.find(':') == absl::string_view::npos ||
         host.find('/') != absl::string_view::npos ||
         (host.front() == '[' && host.back() == ']');
}

// gRPC would try port 0 or 443, and say that nobody answers there.
absl::Status CheckAddresses(const std::string& addresses) {
  const std::vector<std::string> parts =
      absl::StrSplit(addresses, ',', absl::SkipWhitespace());
  for (const std::string& part : parts) {
    if (IsAddress(absl::StripAsciiWhitespace(part))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--address: \"", part, "\" is no address of the form HOST:PORT"));
  }
  if (!parts.empty() || addresses.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--address: \"", addresses, "\" names no address"));
}

// How many a command opens. A launcher has a few of its own, among them the
// pipes to a child that starts, and one for the output of each worker.
int FilesFor(const CLI::App& app, const Arguments& arguments) {
  constexpr int kOfLauncher = 8;
  if (!app.got_subcommand("run")) return lockstep::proto::kFilesOfGrpc;
  return lockstep::proto::kFilesOfGrpc + kOfLauncher + arguments.run.workers;
}

// The token of --token, --token-file or LOCKSTEP_TOKEN; else the one that the
// launcher of a private coordinator at the address has left for its user.
absl::StatusOr<std::string> TokenFor(const Arguments& arguments) {
  const auto checked = [](absl::StatusOr<std::string> token,
                          const std::string& source) {
    if (!token.ok()) return token;
    absl::Status fit = lockstep::CheckToken(*token, source);
    return fit.ok() ? token : absl::StatusOr<std::string>(fit);
  };
  if (!arguments.common.token.empty()) {
    return checked(arguments.common.token, "--token");
  }
  if (!arguments.token_file.empty()) {
    return checked(lockstep::ReadSecretFile(arguments.token_file),
                   arguments.token_file);
  }
  const char* variable = std::getenv("LOCKSTEP_TOKEN");
  if (variable != nullptr && *variable != '\0') {
    return checked(std::string(variable), "LOCKSTEP_TOKEN");
  }
  return lockstep::launch::FindOperatorToken(arguments.common.address);
}

// What could not be printed is an error: on a full disk a list of no jobs must
// not look like one.
int WithOutputChecked(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) {
    return code;
  }
  absl::FPrintF(stderr,
                "lockstepctl: the standard output could not be written\n");
  return code == 0 ? 1 : code;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Operates a Lockstep coordinator.", "lockstepctl");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--address", arguments.common.address,
                 "HOST:PORT of each coordinator, comma separated "
                 "[127.0.0.1:7070]")
      ->envname("LOCKSTEP_ADDRESS");
  CLI::Option* token = app.add_option(
      "--token", arguments.common.token,
      "Of the coordinator or the job [LOCKSTEP_TOKEN]; on the command line "
      "other users of the machine can read it");
  app.add_option("--token-file", arguments.token_file,
                 "A file of mode 0600 whose first line is the token")
      ->excludes(token);
  AddRun(app, arguments);
  CLI::App* create = app.add_subcommand("create", "Create a job from its spec");
  create->add_option("-f,--spec", arguments.spec_file, "YAML or JSON")
      ->required();
  AddQuery(app, arguments, "jobs", "List the jobs", false);
  AddQuery(app, arguments, "describe", "Show all there is to see of a job",
           true);
  AddQuery(app, arguments, "watch", "Follow a job until it is over", true);
  app.add_subcommand("delete", "Forget a job that is over")
      ->add_option("JOB", arguments.job, "Its name, or NAME#1")
      ->required();
  AddCommands(app, arguments);
  lockstep::ctl::PlanArguments plan;
  plan.AddTo(app);

  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == "plan") continue;
    command->footer("And --address and --token: lockstepctl --help");
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  if (app.got_subcommand("plan")) return plan.Run();
  if (absl::Status files = lockstep::RequireOpenFiles(FilesFor(app, arguments));
      !files.ok()) {
    return Refuse(files, app.got_subcommand("run") ? kUsage : 1);
  }
  // A launcher without an address has a coordinator of its own.
  const bool runs = app.got_subcommand("run");
  if (arguments.common.address.empty() && !runs) {
    arguments.common.address = "127.0.0.1:7070";
  }
  if (absl::Status fit = CheckAddresses(arguments.common.address); !fit.ok()) {
    return Refuse(fit);
  }
  auto found_token = TokenFor(arguments);
  if (!found_token.ok()) return Refuse(found_token.status());
  arguments.common.token = *std::move(found_token);
  if (runs) {
    arguments.run.address = arguments.common.address;
    arguments.run.token = arguments.common.token;
    arguments.run.grace = absl::Seconds(arguments.grace_seconds);
    return lockstep::ctl::Run(arguments.run);
  }
  if (app.got_subcommand(create)) {
    return lockstep::ctl::Create(arguments.common, arguments.spec_file);
  }
  if (app.got_subcommand("jobs")) return lockstep::ctl::Jobs(arguments.common);
  if (app.got_subcommand("delete")) {
    return lockstep::ctl::Delete(arguments.common, arguments.job);
  }
  if (app.got_subcommand("describe")) {
    return lockstep::ctl::DescribeJob(arguments.common, arguments.job);
  }
  if (arguments.now) {
    return lockstep::ctl::StopNow(arguments.common, arguments.job,
                                  arguments.reason);
  }
  if (const auto command = Asked(app)) {
    return lockstep::ctl::SendCommand(arguments.common, arguments.job, *command,
                                      arguments.reason);
  }
  return lockstep::ctl::Watch(arguments.common, arguments.job);
}

}  // namespace

int main(int argc, char** argv) { return WithOutputChecked(Main(argc, argv)); }

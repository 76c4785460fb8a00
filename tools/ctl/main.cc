// lockstepctl: operate a coordinator, launch workers on this machine, and work
// with plans, checkpoints and journals offline.
//
// Exit codes: 0 ok, 1 refused or found wrong, 2 usage, 3 unreachable; `run`
// returns its workers' code.

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
#include "base/command_line.h"
#include "base/join_token.h"
#include "base/open_files.h"
#include "base/secret_file.h"
#include "base/standard_streams.h"
#include "base/text/token_text.h"
#include "base/text/utf8.h"
#include "proto/grpc_process.h"
#include "tools/ctl/certs_arguments.h"
#include "tools/ctl/checkpoint_arguments.h"
#include "tools/ctl/commands.h"
#include "tools/ctl/doctor_arguments.h"
#include "tools/ctl/journal_arguments.h"
#include "tools/ctl/plan_arguments.h"
#include "tools/ctl/run_command.h"
#include "tools/ctl/token_command.h"
#include "tools/launch/operator_token.h"

namespace {

constexpr char kVersion[] = "lockstepctl " LOCKSTEP_VERSION;
constexpr int kUsage = 2;
constexpr double kSecondsMax = 1e6;

struct Arguments {
  lockstep::ctl::CommonOptions common;
  lockstep::ctl::RunOptions run;
  std::string job;
  std::string spec_file;
  std::string token_file;
  std::string worker_token_file;  // of `token` and `run`
  std::string reason;
  bool now = false;
  bool wait = false;
  double grace_seconds = 10;
  double save_seconds = 0;
  std::string bind = "none";
};

// Adds a command; its --help ends with a reference to the common options.
lockstep::ProgramCommand AddCommand(const lockstep::CommandLine& line,
                                    const std::string& name,
                                    const std::string& description) {
  lockstep::ProgramCommand command = line.AddCommand(name, description);
  command.SetFooter("And --address and --token: lockstepctl --help");
  return command;
}

lockstep::ProgramCommand AddQuery(const lockstep::CommandLine& line,
                                  Arguments& arguments, const std::string& name,
                                  const std::string& description,
                                  bool about_a_job) {
  lockstep::ProgramCommand command = AddCommand(line, name, description);
  command.AddFlag("--json", &arguments.common.json, "Print JSON");
  if (about_a_job) {
    command.Add("JOB", &arguments.job, "May be left out if one is not over");
  }
  return command;
}

// The commands that are sent to a job.
class JobCommands {
 public:
  JobCommands(const lockstep::CommandLine& line, Arguments& arguments) {
    using lockstep::JobCommand;
    const auto add = [&](JobCommand command, const char* description) {
      const lockstep::ProgramCommand added =
          AddCommand(line, std::string(Name(command)), description);
      added.Add("JOB", &arguments.job, "May be left out if one is not over");
      added.Add("--reason", &arguments.reason,
                "For the history and the workers");
      commands_.emplace_back(command, added);
      return added;
    };
    add(JobCommand::kPause, "Have all ranks wait after one common step");
    add(JobCommand::kResume, "Have them go on");
    add(JobCommand::kDrain,
        "Have all workers leave after one common step; the job stays");
    add(JobCommand::kStop, "End the job after one common step")
        .AddFlag("--now", &arguments.now, "Do not wait for the step to end");
    add(JobCommand::kRebuild,
        "Cut the buckets anew, as gradients become ready");
    add(JobCommand::kSave, "Save a checkpoint of one common step")
        .AddFlag("--wait", &arguments.wait,
                 "Until it is committed; exit code 1 if it fails");
  }

  // The command that was given, if any.
  std::optional<lockstep::JobCommand> Given() const {
    for (const auto& [command, added] : commands_) {
      if (added.given()) return command;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::pair<lockstep::JobCommand, lockstep::ProgramCommand>>
      commands_;
};

std::string CheckSeconds(const std::string& text) {
  double seconds = 0;
  const bool fits = absl::SimpleAtod(text, &seconds) && seconds >= 0 &&
                    seconds <= kSecondsMax;
  return fits ? "" : text + " is no number of seconds up to 1e6";
}

lockstep::ProgramCommand AddRun(const lockstep::CommandLine& line,
                                Arguments& arguments) {
  const lockstep::ProgramCommand run =
      AddCommand(line, "run", "Start the workers of a job here");
  run.Add("-n,--workers", &arguments.run.workers, "How many, on this host")
      .Required()
      .Between(1, 4096);
  run.Add("--job", &arguments.run.job,
          "Its name [the spec's, else the program's]");
  run.Add("-f,--spec", &arguments.run.spec_file, "Job spec, YAML or JSON")
      .ExistingFile();
  run.Add("--nodes", &arguments.run.nodes,
          "Hosts of the job: the same command runs on each, with "
          "--address and its --node-rank")
      .ShowDefault()
      .Between(1, 4096);
  run.Add("--node-rank", &arguments.run.node_rank, "Of this host, from 0")
      .ShowDefault()
      .Between(0, 4095);
  run.Add("--host-address", &arguments.run.host_address,
          "At which other hosts reach this one [from which it reaches "
          "the coordinator]")
      .FromVariable("LOCKSTEP_HOST_ADDRESS");
  run.Add("--data-plane", &arguments.run.data_plane,
          "trusted: the job's spec says so, and the data of workers may cross "
          "the network between the hosts")
      .OneOf({"local", "trusted"})
      .ShowDefault();
  run.Add("--restarts", &arguments.run.restarts,
          "How often workers of this host that fail start again")
      .ShowDefault()
      .Between(0, 1'000'000);
  run.Add("--spares", &arguments.run.spares,
          "Workers on this host beside those of -n, which wait to take the "
          "place of a lost one")
      .ShowDefault()
      .Between(0, 4096);
  run.Add("--worker-token-file", &arguments.worker_token_file,
          "With --address: the coordinator's --worker_token_file, of which "
          "the workers get the token of their job; --token stays with the "
          "launcher");
  run.Add("--worker-tls", &arguments.run.worker_tls_folder,
          "With --address: the workers' --tls, if this launcher's is an "
          "operator's");
  run.AddFlag("--insecure", &arguments.run.insecure,
              "A private coordinator speaks plaintext, for workers that cannot "
              "read this launcher's temporary folder");
  run.Add("--bind", &arguments.bind,
          "core: each worker gets a share of this host's cores; none: the "
          "system places them")
      .OneOf({"core", "none"})
      .ShowDefault();
  run.Add("--journal", &arguments.run.journal,
          "Folder in which a private coordinator keeps its jobs; memory: "
          "nothing is kept")
      .ShowDefault();
  run.AddFlag("--label", &arguments.run.label,
              "Name the worker before each line");
  run.Add("--grace", &arguments.grace_seconds,
          "Seconds that workers get to end by themselves")
      .ShowDefault()
      .CheckedBy(CheckSeconds, "SECONDS");
  run.Add("--save-on-term", &arguments.save_seconds,
          "Seconds for which SIGTERM waits for a checkpoint of the job, before "
          "the workers get it; 0 does not ask for one")
      .ShowDefault()
      .CheckedBy(CheckSeconds, "SECONDS");
  run.Add("PROGRAM", &arguments.run.program, "-- PROGRAM ARGS...")
      .Required()
      .TakesTheRest();
  return run;
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
  // An IPv6 address has brackets; gRPC accepts schemes, too ("dns:///host:1").
  const absl::string_view host = text.substr(0, colon);
  return host.find(':') == absl::string_view::npos ||
         host.find('/') != absl::string_view::npos ||
         (host.front() == '[' && host.back() == ']');
}

// gRPC would try port 0 or 443, and report that no server answers there.
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

// The descriptors that a command opens. A launcher opens a few, among them the
// pipes to a starting child, and one for the output of each worker.
int FilesFor(bool runs, const Arguments& arguments) {
  constexpr int kOfLauncher = 8;
  if (!runs) return lockstep::proto::kFilesOfGrpc;
  return lockstep::proto::kFilesOfGrpc + kOfLauncher + arguments.run.workers +
         arguments.run.spares;
}

// The token of --token, --token-file or LOCKSTEP_TOKEN; else the token in the
// file of the private coordinator at the address (operator_token.h).
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

// The certificates of this user's private coordinator at the address. They
// belong to its token: in the environment of one of its workers LOCKSTEP_TLS is
// a worker's.
void UsePrivateTls(Arguments* arguments) {
  lockstep::ctl::CommonOptions& common = arguments->common;
  const auto access = lockstep::launch::FindOperatorAccess(common.address);
  if (!access.ok() || access->tls_folder.empty()) return;
  if (common.token == access->token || common.tls_folder.empty()) {
    common.tls_folder = access->tls_folder;
  }
  if (arguments->run.worker_tls_folder.empty()) {
    arguments->run.worker_tls_folder = access->worker_tls_folder;
  }
}

int RunDoctor(const lockstep::ctl::DoctorArguments& doctor,
              Arguments arguments) {
  if (absl::Status fit = CheckAddresses(arguments.common.address); !fit.ok()) {
    return Refuse(fit);
  }
  lockstep::ctl::DoctorOptions options = doctor.options();
  options.assignment.version = LOCKSTEP_VERSION;
  options.address = arguments.common.address;
  options.token = TokenFor(arguments);
  options.token_is_in_file = !arguments.token_file.empty();
  options.token_source = !arguments.common.token.empty() ? "--token"
                         : options.token_is_in_file      ? arguments.token_file
                         : std::getenv("LOCKSTEP_TOKEN") != nullptr
                             ? "LOCKSTEP_TOKEN"
                             : "the token of the private coordinator there";
  arguments.common.token = options.token.value_or("");
  UsePrivateTls(&arguments);
  options.tls_folder = arguments.common.tls_folder;
  return lockstep::ctl::Doctor(options);
}

// The secret of --worker-token-file, if join tokens can be made of it.
absl::StatusOr<std::string> WorkersSecret(const Arguments& arguments) {
  if (arguments.common.address.empty()) {
    return absl::InvalidArgumentError(
        "--worker-token-file is for the coordinator at --address: a private "
        "one draws its own tokens");
  }
  absl::StatusOr<std::string> secret =
      lockstep::ReadSecretFile(arguments.worker_token_file);
  if (!secret.ok()) return secret;
  const auto usable = lockstep::JoinToken(*secret, "");
  if (usable.ok()) return secret;
  return absl::InvalidArgumentError(absl::StrCat(
      arguments.worker_token_file, ": ", usable.status().message()));
}

// Failed output is an error: on a full disk an empty list of jobs must not look
// like a success.
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
  lockstep::CommandLine line("Operates a Lockstep coordinator.", "lockstepctl");
  line.SetVersion(kVersion);
  line.RequireCommand();
  line.TakeOptionsBehindCommands();
  line.Add("--address", &arguments.common.address,
           "HOST:PORT of each coordinator, comma separated "
           "[127.0.0.1:7070]")
      .FromVariable("LOCKSTEP_ADDRESS");
  const lockstep::CommandLineOption token =
      line.Add("--token", &arguments.common.token,
               "Of the coordinator or the job [LOCKSTEP_TOKEN]; on the command "
               "line other users of the machine can read it");
  line.Add("--token-file", &arguments.token_file,
           "A file of mode 0600 whose first line is the token")
      .Excludes(token);
  line.Add("--tls", &arguments.common.tls_folder,
           "Folder with ca.crt, tls.crt and tls.key, for a coordinator that "
           "serves TLS (certs makes it)")
      .FromVariable("LOCKSTEP_TLS");
  const auto run = AddRun(line, arguments);
  const auto create = AddCommand(line, "create", "Create a job from its spec");
  create.Add("-f,--spec", &arguments.spec_file, "YAML or JSON").Required();
  const auto jobs = AddQuery(line, arguments, "jobs", "List the jobs", false);
  const auto limits =
      AddQuery(line, arguments, "limits",
               "Show what the coordinator accepts, and what it refused", false);
  const auto describe = AddQuery(line, arguments, "describe",
                                 "Show all there is to see of a job", true);
  AddQuery(line, arguments, "watch", "Follow a job until it is over", true);
  lockstep::ctl::DoctorArguments doctor(AddCommand(
      line, "doctor",
      "Find what would keep this host from training, and how to mend it"));
  const auto forget = AddCommand(line, "delete", "Forget a job that is over");
  forget.Add("JOB", &arguments.job, "Its name, or NAME#1").Required();
  const JobCommands job_commands(line, arguments);
  lockstep::ctl::PlanArguments plan;
  plan.AddTo(line);
  lockstep::ctl::CheckpointArguments checkpoint;
  checkpoint.AddTo(line);
  lockstep::ctl::JournalArguments journal;
  journal.AddTo(line);
  lockstep::ctl::CertsArguments certs;
  certs.AddTo(line);
  const auto join_token = line.AddCommand(
      "token", "Print the token that admits workers to one job only");
  join_token.Add("JOB", &arguments.job, "Its name").Required();
  join_token
      .Add("--worker-token-file", &arguments.worker_token_file,
           "The coordinator's --worker_token_file, of whose first line the "
           "token is made")
      .Required();

  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  if (plan.given()) return plan.Run();
  if (checkpoint.given()) return checkpoint.Run();
  if (journal.given()) return journal.Run();
  if (certs.given()) return certs.Run();
  if (doctor.given()) return RunDoctor(doctor, arguments);
  if (join_token.given()) {
    return lockstep::ctl::PrintJoinToken(arguments.job,
                                         arguments.worker_token_file);
  }
  const bool runs = run.given();
  if (absl::Status files =
          lockstep::RequireOpenFiles(FilesFor(runs, arguments));
      !files.ok()) {
    return Refuse(files, runs ? kUsage : 1);
  }
  // A launcher without an address starts a private coordinator.
  if (arguments.common.address.empty() && !runs) {
    arguments.common.address = "127.0.0.1:7070";
  }
  if (absl::Status fit = CheckAddresses(arguments.common.address); !fit.ok()) {
    return Refuse(fit);
  }
  if (runs && !arguments.common.address.empty() &&
      arguments.run.journal != "memory") {
    return Refuse(
        absl::InvalidArgumentError(absl::StrCat(
            "--journal is for a private coordinator, and --address "
            "names ",
            arguments.common.address, ": give --journal to its lockstepd")),
        kUsage);
  }
  if (runs && !arguments.worker_token_file.empty()) {
    auto secret = WorkersSecret(arguments);
    if (!secret.ok()) return Refuse(secret.status());
    arguments.run.worker_token = *std::move(secret);
  }
  if (arguments.run.insecure && !arguments.common.address.empty()) {
    return Refuse(absl::InvalidArgumentError(
        "--insecure is for a private coordinator, and --address names one that "
        "exists"));
  }
  if (runs && !arguments.run.worker_tls_folder.empty() &&
      arguments.common.address.empty()) {
    return Refuse(absl::InvalidArgumentError(
        "--worker-tls is for the coordinator at --address: a private one makes "
        "no use of it"));
  }
  auto found_token = TokenFor(arguments);
  if (!found_token.ok()) return Refuse(found_token.status());
  arguments.common.token = *std::move(found_token);
  UsePrivateTls(&arguments);
  if (runs) {
    arguments.run.address = arguments.common.address;
    arguments.run.token = arguments.common.token;
    arguments.run.tls_folder = arguments.common.tls_folder;
    arguments.run.grace = absl::Seconds(arguments.grace_seconds);
    arguments.run.save_on_term = absl::Seconds(arguments.save_seconds);
    arguments.run.bind_cores = arguments.bind == "core";
    return lockstep::ctl::Run(arguments.run);
  }
  if (create.given()) {
    return lockstep::ctl::Create(arguments.common, arguments.spec_file);
  }
  if (jobs.given()) return lockstep::ctl::Jobs(arguments.common);
  if (limits.given()) return lockstep::ctl::Limits(arguments.common);
  if (forget.given()) {
    return lockstep::ctl::Delete(arguments.common, arguments.job);
  }
  if (describe.given()) {
    return lockstep::ctl::DescribeJob(arguments.common, arguments.job);
  }
  if (arguments.wait) {
    return lockstep::ctl::SaveAndWait(arguments.common, arguments.job,
                                      arguments.reason);
  }
  if (arguments.now) {
    return lockstep::ctl::StopNow(arguments.common, arguments.job,
                                  arguments.reason);
  }
  if (const auto command = job_commands.Given()) {
    return lockstep::ctl::SendCommand(arguments.common, arguments.job, *command,
                                      arguments.reason);
  }
  return lockstep::ctl::Watch(arguments.common, arguments.job);
}

}  // namespace

int main(int argc, char** argv) { return WithOutputChecked(Main(argc, argv)); }

#include "client/session/identity.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/process.h"
#include "base/text/token_text.h"
#include "base/text/utf8.h"
#include "base/user_file.h"
#include "spec/spec_text.h"

namespace lockstep::session {
namespace {

std::string FirstOf(std::string given, std::string otherwise) {
  return given.empty() ? std::move(otherwise) : std::move(given);
}

absl::StatusOr<std::vector<std::string>> SplitAddresses(
    const std::string& text) {
  std::vector<std::string> addresses;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    addresses.emplace_back(absl::StripAsciiWhitespace(part));
    if (addresses.back().empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "LOCKSTEP_ADDRESS is '%s': an address in it is empty", text));
    }
  }
  return addresses;
}

absl::StatusOr<std::optional<JobSpec>> SpecFrom(const Environment& environment,
                                                const std::string& job) {
  const std::string path = environment("LOCKSTEP_SPEC");
  if (!path.empty()) {
    auto text = ReadUserFile(path, kHandwrittenBytesMax);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("LOCKSTEP_SPEC: ", text.status().message()));
    }
    auto spec = spec::ParseJobSpec(*text, path);
    if (!spec.ok()) return spec.status();
    return *std::move(spec);
  }
  const std::string size = environment("LOCKSTEP_WORLD_SIZE");
  if (size.empty()) return std::nullopt;
  int ranks = 0;
  if (!absl::SimpleAtoi(size, &ranks) || ranks < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "LOCKSTEP_WORLD_SIZE is '%s', not a number of ranks", size));
  }
  return JobSpec{.name = job, .mesh = {{{"data", ranks}}}};
}

absl::Status NameTheJob(JoinOptions& options) {
  if (options.spec) options.job = FirstOf(options.job, options.spec->name);
  if (options.job.empty()) {
    return absl::InvalidArgumentError(
        "no job name: set LOCKSTEP_JOB or JoinOptions::job, or give a spec");
  }
  if (!options.spec) return absl::OkStatus();
  options.spec->name = FirstOf(options.spec->name, options.job);
  if (options.job != options.spec->name) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the job is named '%s', but its spec is for '%s'",
                        options.job, options.spec->name));
  }
  return Validate(*options.spec);
}

}  // namespace

std::string ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

protocol::ProcessInfo ThisProcess() {
  return {.host = HostName(),
          .pid = getpid(),
          .boot_id = BootId(),
          .start_time = StartTimeOf(getpid())};
}

absl::StatusOr<std::optional<protocol::Launch>> LaunchOf(
    const Environment& environment) {
  const std::string text = environment("LOCKSTEP_LAUNCH");
  if (text.empty()) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  protocol::Launch launch{.id = words[0]};
  if (words.size() == 1) return launch;
  const std::vector<std::string> node = absl::StrSplit(words[1], '/');
  const bool is_node = words.size() == 2 && node.size() == 2 &&
                       absl::SimpleAtoi(node[0], &launch.node_rank) &&
                       absl::SimpleAtoi(node[1], &launch.nodes) &&
                       launch.node_rank >= 0 && launch.node_rank < launch.nodes;
  if (is_node && !launch.id.empty()) return launch;
  return absl::InvalidArgumentError(absl::StrFormat(
      "LOCKSTEP_LAUNCH is '%s': it is ID, or ID NODE_RANK/NODES",
      Printable(text)));
}

absl::StatusOr<JoinOptions> Complete(JoinOptions options,
                                     const Environment& environment,
                                     const protocol::ProcessInfo& process) {
  if (options.addresses.empty()) {
    auto addresses = SplitAddresses(
        FirstOf(environment("LOCKSTEP_ADDRESS"), "127.0.0.1:7070"));
    if (!addresses.ok()) return addresses.status();
    options.addresses = *std::move(addresses);
  }
  options.job = FirstOf(options.job, environment("LOCKSTEP_JOB"));
  if (!options.spec) {
    auto spec = SpecFrom(environment, options.job);
    if (!spec.ok()) return spec.status();
    options.spec = *std::move(spec);
  }
  if (absl::Status named = NameTheJob(options); !named.ok()) return named;
  options.worker =
      FirstOf(FirstOf(options.worker, environment("LOCKSTEP_WORKER_NAME")),
              absl::StrCat(process.host, "-", process.pid));
  const char* const source =
      options.token.empty() ? "LOCKSTEP_TOKEN" : "JoinOptions::token";
  options.token = FirstOf(options.token, environment("LOCKSTEP_TOKEN"));
  if (absl::Status fit = CheckToken(options.token, source); !fit.ok()) {
    return fit;
  }
  options.tls_folder = FirstOf(options.tls_folder, environment("LOCKSTEP_TLS"));
  options.host_address = FirstOf(
      FirstOf(options.host_address, environment("LOCKSTEP_HOST_ADDRESS")),
      "127.0.0.1");
  return options;
}

}  // namespace lockstep::session

#include "server/daemon_flags.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "server/access/address.h"
#include "server/access/may_listen.h"
#include "server/rpc/token_gate.h"

namespace lockstep {
namespace {

// The default on a fixed port, which workers may know. Workers open a stream
// every 0.7 s at most while it is refused: 300 ms of the session's backoff,
// 360 ms of gRPC's.
constexpr absl::Duration kAdoptionWindow = absl::Seconds(2);

std::string IdentityOf(const DaemonFlags& flags) {
  return absl::StrCat("lockstepd on ", HostName(), ", which listens on ",
                      flags.listen, " (pid ", getpid(), ")");
}

}  // namespace

void Declare(DaemonFlags* flags, CommandLine* line) {
  line->SetVersion("lockstepd " LOCKSTEP_VERSION);
  line->Add("--listen", &flags->listen,
            "HOST:PORT to serve on; port 0: any that is free")
      .ShowDefault();
  line->Add("--health_address", &flags->health_address,
            "HOST:PORT of a second listener with only the gRPC health "
            "service, for probes; may leave this machine");
  line->Add("--metrics_address", &flags->metrics_address,
            "HOST:PORT of a listener that serves GET /metrics over HTTP in "
            "plaintext, for Prometheus: who reaches it learns the names of "
            "jobs; may leave this machine");
  line->Add("--port_file", &flags->port_file,
            "file to write HOST:PORT to once the daemon serves");
  line->Add("--tls", &flags->tls,
            "folder with ca.crt, tls.crt and tls.key, such as lockstepctl "
            "certs makes: both sides of each connection show certificates, "
            "and operators those of an operator");
  line->AddFlag("--insecure", &flags->insecure,
                "serve in plaintext to other machines, whose network is "
                "trusted");
  line->Add("--token_file", &flags->token_file,
            "file with operators' tokens, one a line, the newest first; also "
            "those of workers unless they have a file of their own; read "
            "again when it changes; only its owner may be able to read it");
  line->Add("--worker_token_file", &flags->worker_token_file,
            "file with tokens that let workers join, but neither see nor stop "
            "jobs; lockstepctl token makes a token for one job of it");
  line->Add("--journal", &flags->journal,
            "folder that keeps the jobs across a restart; created if it does "
            "not exist, for one daemon at a time; etcd://HOST:PORT,.../PREFIX: "
            "for several daemons, of which one leads; memory: nothing is kept")
      .ShowDefault();
  line->Add("--etcd_tls", &flags->etcd_tls,
            "folder with ca.crt, tls.crt and tls.key for a journal in etcd: "
            "its authority, and a certificate of its clients");
  line->Add("--adoption_window", &flags->adoption_window,
            "for how long after a start without a journal, or with an empty "
            "one, no job forms its first epoch, so that jobs that run can be "
            "adopted "
            "before others take their names; 2s unless the port is 0");
  line->Add("--log_level", &flags->log_level,
            "debug, info, warning, error or off")
      .ShowDefault();
  flags->limits.AddTo(*line);
}

absl::StatusOr<rpc::ServerOptions> OptionsFrom(const DaemonFlags& flags) {
  rpc::ServerOptions options;
  options.version = LOCKSTEP_VERSION;
  if (absl::Status fit = rpc::CheckInsecure(flags.tls, flags.insecure);
      !fit.ok()) {
    return fit;
  }
  options.insecure = flags.insecure;
  options.limits = flags.limits.rpc();
  options.tls_folder = flags.tls;
  const auto listen = rpc::ParseAddress(flags.listen);
  if (!listen.ok()) return listen.status();
  options.listen = *listen;
  for (const std::string& address :
       {flags.health_address, flags.metrics_address}) {
    if (address.empty()) continue;
    if (auto parsed = rpc::ParseAddress(address); !parsed.ok()) {
      return parsed.status();
    }
  }
  options.token_files = {.operators = flags.token_file,
                         .workers = flags.worker_token_file};
  auto tokens = rpc::ReadTokens(options.token_files);
  if (!tokens.ok()) return tokens.status();
  options.gate = rpc::TokenGate(*std::move(tokens));
  return options;
}

// A daemon on any free port has no workers of an earlier run.
absl::StatusOr<absl::Duration> AdoptionWindowFrom(
    const DaemonFlags& flags, const rpc::ServerOptions& options) {
  if (flags.adoption_window.empty()) {
    return options.listen.port == 0 ? absl::ZeroDuration() : kAdoptionWindow;
  }
  absl::Duration window;
  if (!absl::ParseDuration(flags.adoption_window, &window) ||
      window < absl::ZeroDuration() || window == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--adoption_window is ", flags.adoption_window,
                     ": it is a time such as 2s, 500ms or 0"));
  }
  return window;
}

JournalOptions JournalOptionsFrom(const DaemonFlags& flags) {
  return {.where = flags.journal,
          .etcd_tls = flags.etcd_tls,
          .insecure = flags.insecure,
          .identity = IdentityOf(flags)};
}

}  // namespace lockstep

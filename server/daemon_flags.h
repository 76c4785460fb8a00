// The flags of lockstepd, and what they say to its parts.
//
// Errors:  InvalidArgument for flags that do not fit; those of ReadTokens.

#ifndef LOCKSTEP_SERVER_DAEMON_FLAGS_H_
#define LOCKSTEP_SERVER_DAEMON_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/command_line.h"
#include "server/limit_flags.h"
#include "server/open_journal.h"
#include "server/rpc/server.h"

namespace lockstep {

struct DaemonFlags {
  std::string listen = "127.0.0.1:7070";
  std::string health_address;
  std::string metrics_address;
  std::string port_file;
  std::string tls;
  bool insecure = false;
  std::string token_file;
  std::string worker_token_file;
  std::string journal = std::string(kJournalInMemory);
  std::string etcd_tls;
  std::string adoption_window;
  std::string log_level = "info";
  LimitFlags limits;
};

// Both must outlive the parsing of the command line.
void Declare(DaemonFlags* flags, CommandLine* line);

// Reads the files of tokens.
absl::StatusOr<rpc::ServerOptions> OptionsFrom(const DaemonFlags& flags);

absl::StatusOr<absl::Duration> AdoptionWindowFrom(
    const DaemonFlags& flags, const rpc::ServerOptions& options);

JournalOptions JournalOptionsFrom(const DaemonFlags& flags);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_DAEMON_FLAGS_H_

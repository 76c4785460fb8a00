// Finds the facts of this machine, of the files and of the coordinators that
// `lockstepctl doctor` judges.
//
// Threads: one. GatherMachine and GatherGpu start no gRPC and no thread, so a
//          launcher may call them before it forks. Blocks: for a second for
//          each address to connect to, 3 s for each answer of a coordinator or
//          of etcd.
// Errors:  none: what fails is a fact.

#ifndef LOCKSTEP_TOOLS_DOCTOR_GATHER_H_
#define LOCKSTEP_TOOLS_DOCTOR_GATHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/tls/certificate.h"
#include "tools/doctor/facts.h"

namespace lockstep::doctor {

// --- Machine (gather_machine.cc) ---
// `root` is where /dev, /proc, /sys and /etc are: empty but in tests.
MachineFacts GatherMachine(const std::string& root = "");
// NCCL is looked for and loaded if the job uses it, and if that is not known
// where there is a GPU.
GpuFacts GatherGpu(std::optional<bool> uses_gpu, const std::string& root = "");
// `name` as of gethostname.
HostFacts GatherHost(const std::string& name, const std::string& root = "");

// --- Files (gather_files.cc) ---
// `roles`: of which the certificate must have one.
TlsFacts GatherTls(const std::string& folder,
                   absl::Span<const tls::CertificateRole> roles,
                   absl::Time now);
// A file with one token a line.
TokenFacts GatherTokenFile(const std::string& path);
// A token of the environment or the command line.
TokenFacts GatherToken(const std::string& source, const std::string& token);
// The paths of lockstepd's --token_file and --worker_token_file; each may be
// empty.
DaemonTokenFacts GatherDaemonTokens(const std::string& operators,
                                    const std::string& workers);
JournalFolderFacts GatherJournal(const std::string& folder);

// --- Network (gather_network.cc) ---
struct CoordinatorAccess {
  std::string token;
  std::string tls_folder;           // empty: plaintext
  bool lacks_certificates = false;  // those in the folder cannot be used
  std::string job;  // whose worker the token may be; may be empty
  // The workers' token of the coordinator, of which a launcher makes the token
  // of the job. Empty: not known.
  std::string worker_token;
};
CoordinatorFacts GatherCoordinator(const std::string& address,
                                   const CoordinatorAccess& access);
HostAddressFacts GatherHostAddress(const std::string& text);
// The flags of lockstepd about its listeners; each may be empty.
struct ListenerFlags {
  std::string listen;
  std::string health_address;
  std::string metrics_address;
  std::string tls_folder;
  bool insecure = false;
};
// Those that are given. Listens on all of them for a moment.
std::vector<ListenFacts> GatherListeners(const ListenerFlags& flags);
struct EtcdAccess {
  std::string tls_folder;  // lockstepd's --etcd_tls
  bool lacks_certificates = false;
  std::string key;  // of the journal there, which is read
};
EtcdMember GatherEtcdMember(const std::string& address,
                            const EtcdAccess& access);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_GATHER_H_

// The facts that `lockstepctl doctor` judges, as they were found.
//
//   Assignment ──Gather──▶ Facts ──Diagnose──▶ Findings ──▶ text, JSON
//                 │
//                 └ reads files, asks coordinators   (all else is pure)
//
// Plain values. A part that was not asked for is empty.

#ifndef LOCKSTEP_TOOLS_DOCTOR_FACTS_H_
#define LOCKSTEP_TOOLS_DOCTOR_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/tls/certificate.h"
#include "base/tls/probe.h"
#include "client/transport/shm/available_memory.h"
#include "server/etcd/access/member_status.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::doctor {

// What this machine is to do.
struct Assignment {
  int workers = 1;               // of a job, here
  int ranks = 0;                 // of the job, everywhere; 0: not known
  std::optional<bool> uses_gpu;  // the job's transport; empty: not known
  uint64_t worker_bytes = 0;     // that a worker needs besides its library
  bool serves = false;           // it runs a coordinator
  absl::Duration expires_within = absl::Hours(14 * 24);
  std::string job;      // whose token it may be; may be empty
  std::string version;  // of this tool
};

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A limit of the kernel for this process, or kUnlimited.
struct ResourceLimit {
  uint64_t soft = 0;
  uint64_t hard = 0;
};

struct SharedFolder {  // /dev/shm
  bool exists = false;
  bool writable = false;
  uint64_t free_bytes = 0;
};

struct MachineFacts {
  transport::MemoryRoom room;
  absl::Status shared_memory;  // whether a segment can be made and mapped
  SharedFolder shm;
  ResourceLimit open_files;
  ResourceLimit processes;
  ResourceLimit locked_memory;
  ResourceLimit core;
  uint64_t tasks_left = 0;  // in the control group, or kUnlimited
  bool is_root = false;
  bool has_rdma = false;  // InfiniBand, RoCE
};

struct GpuFacts {
  int devices = 0;               // device files of NVIDIA's driver
  std::string kernel_driver;     // its version; empty: not loaded
  absl::StatusOr<int> cuda = 0;  // that the driver's library knows: 12040
  // The library that workers would load. Empty: not looked for.
  std::optional<absl::StatusOr<int>> nccl;
};

struct HostFacts {
  std::string name;
  std::string loopback;  // that /etc/hosts has for the name; may be empty
};

// The address at which other workers reach those of this host.
struct HostAddressFacts {
  std::string text;
  absl::Status resolved;
  bool is_any = false;  // 0.0.0.0 or ::, at which nobody can be reached
  bool is_loopback = false;
  bool is_here = false;  // an interface has it
};

struct TlsFacts {
  std::string folder;
  absl::Status usable;
  absl::Status key;  // whether only its owner can read it
  std::optional<tls::CertificateFacts> certificate;
};

struct TokenFacts {
  std::string source;  // a file or a variable
  bool is_file = false;
  absl::Status usable;
  int tokens = 0;
};

struct CoordinatorFacts {
  std::string address;
  bool is_loopback = false;
  absl::Status resolved;
  absl::Status connected;
  // The client's certificates cannot be used: it was only connected to.
  bool lacks_certificates = false;
  std::optional<tls::TlsFault> tls;
  std::optional<tls::CertificateFacts> shown;
  absl::StatusOr<ctl::Introduction> met = absl::UnavailableError("not asked");
  // Whether workers may join with the token that --worker-token-file makes.
  // Empty: there is no such file, or it is not usable.
  std::optional<absl::Status> admits_workers;
  absl::Time asked;  // by this host's clock, when the answer came
};

// A listener of lockstepd.
struct ListenFacts {
  std::string flag;  // that has the address
  std::string address;
  absl::Status parsed;
  absl::Status allowed;  // rpc::CheckInsecure and rpc::MayListen
  absl::Status bound;
  std::string same_port_as;  // the flag of another one; empty: none
};

// The tokens of a coordinator, of both files together.
struct DaemonTokenFacts {
  absl::Status usable;
  std::string warning;  // of short ones; empty: none
};

struct JournalFolderFacts {
  std::string folder;
  absl::Status allowed;  // CheckLocalJournal; if not, the rest is not known
  bool has_etcd_tls = false;
  bool exists = false;
  absl::Status parent_writable;  // if it does not exist
  uid_t owner = 0;
  uid_t reader = 0;  // that doctor runs as
  mode_t mode = 0;
  bool is_folder = false;
  bool is_on_network = false;  // NFS, CIFS and such
  uint64_t free_bytes = 0;
  uint64_t free_files = 0;
  bool in_use = false;     // a daemon has locked it
  absl::Status inspected;  // NotFound: there is no journal yet
};

struct EtcdMember {
  std::string address;
  absl::Status connected;
  // The certificates of --etcd-tls cannot be used: it was only connected to.
  bool lacks_certificates = false;
  std::optional<tls::TlsFault> tls;
  absl::StatusOr<etcd::MemberStatus> says = absl::UnavailableError("not asked");
};

struct Facts {
  Assignment assignment;
  absl::Time now;
  std::optional<absl::Status> spec;  // of --spec
  std::string spec_name;             // the job that it names
  absl::Status spec_fits;            // -n, --nodes and --job, as run has it
  std::optional<MachineFacts> machine;
  std::optional<GpuFacts> gpu;
  std::optional<HostFacts> host;
  std::optional<HostAddressFacts> host_address;
  std::vector<TlsFacts> tls;
  std::vector<TokenFacts> tokens;
  std::optional<DaemonTokenFacts> daemon_tokens;
  std::vector<CoordinatorFacts> coordinators;
  std::vector<ListenFacts> listeners;
  std::optional<JournalFolderFacts> journal;
  std::optional<absl::Status> etcd_url;  // whether lockstepd takes it
  std::vector<EtcdMember> etcd;
};

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_FACTS_H_

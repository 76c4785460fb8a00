// `lockstepctl doctor`: finds what would keep this machine from training, or
// from running a coordinator, and says how to mend it.
//
// Threads: one. FindForLaunch starts none, and no gRPC.

#ifndef LOCKSTEP_TOOLS_CTL_DOCTOR_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_DOCTOR_COMMAND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/finding.h"

namespace lockstep::ctl {

struct DoctorOptions {
  doctor::Assignment assignment;
  // As of `run`, to compare with the mesh. 0: not given; hosts: as many as fit.
  int workers = 0;
  int nodes = 0;
  std::string address;  // of coordinators, comma separated; empty: none
  // The token for them, where it is from, and whether that is a file.
  absl::StatusOr<std::string> token = std::string();
  std::string token_source;
  bool token_is_in_file = false;
  std::string worker_token_file;
  std::string tls_folder;
  std::string spec_file;
  std::string host_address;
  std::string listen;  // not empty: this host is to be a coordinator
  std::string health_address;
  std::string metrics_address;
  std::string journal;  // a folder, or etcd://...
  std::string etcd_tls_folder;
  bool insecure = false;  // lockstepd's --insecure
  bool json = false;
  bool strict = false;  // warnings count as errors
};

// Prints the findings. Returns 0, or 1 if something is wrong.
int Doctor(const DoctorOptions& options);

// What keeps `workers` of this job from running here, as far as it can be found
// at once and without a coordinator: warnings and errors only.
doctor::Findings FindForLaunch(const JobSpec& spec, int workers,
                               const std::string& workers_tls_folder);

// OK, or what is wrong with the folder of workers' certificates, and the fix.
absl::Status CheckWorkersFolder(const std::string& tls_folder);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_DOCTOR_COMMAND_H_

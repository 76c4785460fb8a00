// The command-line arguments of `lockstepctl doctor`, besides those of all
// commands.

#ifndef LOCKSTEP_TOOLS_CTL_DOCTOR_ARGUMENTS_H_
#define LOCKSTEP_TOOLS_CTL_DOCTOR_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/command_line.h"
#include "base/text/units.h"
#include "tools/ctl/doctor_command.h"

namespace lockstep::ctl {

class DoctorArguments {
 public:
  explicit DoctorArguments(const ProgramCommand& doctor) : command_(doctor) {
    doctor::Assignment& assignment = options_.assignment;
    doctor.Add("-n,--workers", &options_.workers, "That run on this host")
        .Between(1, 4096)
        .ShowDefault("1");
    doctor
        .Add("--nodes", &options_.nodes,
             "Hosts of the job, each with as many workers")
        .Between(1, 4096)
        .ShowDefault("as many as the ranks of the spec need");
    doctor.Add("-f,--spec", &options_.spec_file,
               "Of their job, YAML or JSON: its ranks, and whether it uses "
               "GPUs");
    doctor.Add(
        "--worker-memory",
        [&assignment](const std::string& text) -> std::string {
          constexpr int64_t kMost = int64_t{1} << 50;
          const auto bytes = ParseSize(text);
          if (!bytes || *bytes > kMost)
            return text + " is no size such as 2GiB";
          assignment.worker_bytes = static_cast<uint64_t>(*bytes);
          return "";
        },
        "What each worker needs for its program and its gradients: 2GiB [0]");
    doctor.Add("--job", &assignment.job,
               "The job whose join token the token may be [of the spec]");
    doctor
        .Add("--host-address", &options_.host_address,
             "At which other hosts reach the workers of this one")
        .FromVariable("LOCKSTEP_HOST_ADDRESS");
    doctor.Add("--listen", &options_.listen,
               "HOST:PORT: this host is to run lockstepd there, and --tls, "
               "--token-file and --worker-token-file are its own");
    doctor.Add("--health-address", &options_.health_address,
               "lockstepd's --health_address");
    doctor.Add("--metrics-address", &options_.metrics_address,
               "lockstepd's --metrics_address");
    doctor.Add("--worker-token-file", &options_.worker_token_file,
               "The coordinator's");
    doctor.Add("--journal", &options_.journal,
               "Of lockstepd: a folder, or etcd://HOST:PORT,.../PREFIX");
    doctor.AddFlag("--insecure", &options_.insecure,
                   "lockstepd's: the network is trusted");
    doctor.Add("--etcd-tls", &options_.etcd_tls_folder,
               "lockstepd's --etcd_tls");
    doctor
        .Add("--expires-within", &days_,
             "Days in which a certificate that expires is a warning, in the "
             "last quarter of its life")
        .Between(0, 3650)
        .ShowDefault();
    doctor.AddFlag("--strict", &options_.strict,
                   "Exit with 1 for warnings, too");
    doctor.AddFlag("--json", &options_.json, "Print JSON");
  }

  bool given() const { return command_.given(); }

  DoctorOptions options() const {
    DoctorOptions options = options_;
    options.assignment.workers = std::max(options.workers, 1);
    options.assignment.expires_within = days_ * absl::Hours(24);
    return options;
  }

 private:
  const ProgramCommand command_;
  DoctorOptions options_;
  int days_ = 14;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_DOCTOR_ARGUMENTS_H_

// The environment variables that a launcher sets for its workers;
// Session::Join reads them.

#ifndef LOCKSTEP_TOOLS_LAUNCH_WORKER_ENVIRONMENT_H_
#define LOCKSTEP_TOOLS_LAUNCH_WORKER_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::launch {

struct WorkerPlace {
  std::string address;  // of the coordinators
  std::string job;
  std::string worker;
  int world_size = 1;
  int local_rank = 0;        // among the launcher's workers; selects the GPU
  std::string spec_file;     // empty: the job is a mesh data=world_size
  std::string token;         // empty: none
  std::string tls_folder;    // certificates; empty: plaintext
  int restart_count = 0;     // the restart that starts it; 0: the first start
  std::string host_address;  // for other hosts to reach this one; empty: unset
  // "ID" or "ID NODE_RANK/NODES": the launch that started the worker. The
  // workers of a job belong to one launch, or to one for each node. Empty:
  // unset.
  std::string launch;
};

inline std::vector<std::pair<std::string, std::string>> EnvironmentOf(
    const WorkerPlace& place) {
  std::vector<std::pair<std::string, std::string>> environment = {
      {"LOCKSTEP_ADDRESS", place.address},
      {"LOCKSTEP_JOB", place.job},
      {"LOCKSTEP_WORKER_NAME", place.worker},
      {"LOCKSTEP_WORLD_SIZE", absl::StrCat(place.world_size)},
      {"LOCKSTEP_RESTART_COUNT", absl::StrCat(place.restart_count)},
      {"LOCAL_RANK", absl::StrCat(place.local_rank)},
      // Set even if empty: the launcher's own is for another coordinator.
      {"LOCKSTEP_TLS", place.tls_folder},
  };
  if (!place.spec_file.empty())
    environment.emplace_back("LOCKSTEP_SPEC", place.spec_file);
  if (!place.token.empty())
    environment.emplace_back("LOCKSTEP_TOKEN", place.token);
  if (!place.launch.empty())
    environment.emplace_back("LOCKSTEP_LAUNCH", place.launch);
  if (!place.host_address.empty())
    environment.emplace_back("LOCKSTEP_HOST_ADDRESS", place.host_address);
  return environment;
}

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_WORKER_ENVIRONMENT_H_

#include "server/core/limits.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/text/units.h"
#include "spec/elastic.h"

namespace lockstep::core {

Limits::Limits(const LimitValues& values)
    : jobs_{.name = "jobs", .value = values.jobs},
      workers_{.name = "workers_per_job", .value = values.workers_per_job},
      parameters_{.name = "parameters_per_job",
                  .value = values.parameters_per_job},
      bytes_{.name = "registration_bytes", .value = values.registration_bytes},
      joins_{.name = "joins_per_second", .value = values.joins_per_second} {}

absl::Status Limits::AdmitJob(const JobSpec& spec, int64_t living) {
  const int64_t workers = spec::WorkersMax(spec);
  if (!workers_.Admits(workers)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "job %s has %s, with its spares; this coordinator takes jobs "
        "of at most %d (lockstepd --workers_max)",
        spec.name, Count(workers, "worker"), workers_.value));
  }
  if (!jobs_.Admits(living + 1)) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("job %s is one too many: this coordinator has %s not "
                        "over, and takes at most %d (lockstepd --jobs_max)",
                        spec.name,
                        absl::StrCat(Count(living, "job"),
                                     living == 1 ? " that is" : " that are"),
                        jobs_.value));
  }
  return absl::OkStatus();
}

absl::Status Limits::AdmitRegistration(int64_t parameters, int64_t bytes) {
  if (!parameters_.Admits(parameters)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "registers parameters beyond the coordinator's limit: with them all "
        "ranks have %d, and at most %d are taken (lockstepd --parameters_max)",
        parameters, parameters_.value));
  }
  if (!bytes_.Admits(bytes)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "registers %s of names and shapes; the coordinator keeps at most %s "
        "for one worker (lockstepd --client_bytes_max)",
        SizeText(bytes), SizeText(bytes_.value)));
  }
  return absl::OkStatus();
}

absl::Status Limits::AdmitJoin(const JobSpec& spec, const WorkerName& worker,
                               JoinRate* joins, absl::Time now) {
  const int64_t burst = std::max<int64_t>(spec::WorkersMax(spec), joins_.value);
  if (joins->Take(now, burst, joins_.value)) return absl::OkStatus();
  ++joins_.refused;
  return absl::UnavailableError(absl::StrFormat(
      "%s has to wait: workers join job %s more often than %s a second "
      "(lockstepd --joins_per_second)",
      worker.value, spec.name, Count(joins_.value, "time")));
}

std::vector<LimitUse> Limits::Uses(int64_t living) const {
  std::vector<LimitUse> uses = {jobs_, workers_, parameters_, bytes_, joins_};
  uses.front().used = living;
  return uses;
}

}  // namespace lockstep::core

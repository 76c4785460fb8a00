#include "tools/ctl/run_job.h"

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/mesh.h"
#include "plan/spec_text.h"

namespace lockstep::ctl {
namespace {

absl::StatusOr<JobSpec> SpecFromFile(const RunRequest& request,
                                     const std::string& spec_text) {
  absl::StatusOr<JobSpec> spec =
      plan::ParseJobSpec(spec_text, request.spec_file);
  if (!spec.ok()) return spec;
  if (request.job.empty() || request.job == spec->name) return spec;
  return absl::InvalidArgumentError(absl::StrFormat(
      "--job %s, but %s names the job %s: leave --job out, or correct one",
      request.job, request.spec_file, spec->name));
}

absl::StatusOr<JobSpec> SpecWithoutFile(const RunRequest& request) {
  JobSpec spec{
      .name = !request.job.empty()
                  ? request.job
                  : std::filesystem::path(request.program).filename().string(),
      .mesh = {{{"data", request.workers}}}};
  absl::Status valid = Validate(spec);
  if (valid.ok()) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      "the job, named after ", request.job.empty() ? "the program" : "--job",
      ": ", valid.message(), "; --job NAME names it"));
}

absl::Status CheckWorldSize(const RunRequest& request, const JobSpec& spec) {
  const int ranks = spec.mesh.WorldSize();
  if (request.workers == ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "-n %d, but mesh %s of %s has %d ranks: the job would wait for workers "
      "that nobody starts",
      request.workers, ToString(spec.mesh), request.spec_file, ranks));
}

std::vector<std::string> WorkerNames(const RunRequest& request,
                                     const JobSpec& spec) {
  if (!spec.workers.empty()) return spec.workers;
  std::vector<std::string> names;
  for (int i = 0; i < request.workers; ++i) {
    names.push_back(absl::StrCat("worker-", i));
  }
  return names;
}

}  // namespace

absl::StatusOr<RunJob> DecideJob(const RunRequest& request,
                                 const std::string& spec_text) {
  absl::StatusOr<JobSpec> spec = request.spec_file.empty()
                                     ? SpecWithoutFile(request)
                                     : SpecFromFile(request, spec_text);
  if (!spec.ok()) return spec.status();
  if (absl::Status fits = CheckWorldSize(request, *spec); !fits.ok()) {
    return fits;
  }
  std::vector<std::string> names = WorkerNames(request, *spec);
  return RunJob{.spec = *std::move(spec), .workers = std::move(names)};
}

}  // namespace lockstep::ctl

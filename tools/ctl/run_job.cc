#include "tools/ctl/run_job.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/count.h"
#include "lockstep/mesh.h"
#include "spec/elastic.h"
#include "spec/spec_text.h"

namespace lockstep::ctl {
namespace {

int WorldSize(const RunRequest& request) {
  return request.workers * request.nodes;
}

absl::StatusOr<JobSpec> SpecFromFile(const RunRequest& request,
                                     const std::string& spec_text) {
  absl::StatusOr<JobSpec> spec =
      spec::ParseJobSpec(spec_text, request.spec_file);
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
      .mesh = {{{"data", WorldSize(request)}}}};
  absl::Status valid = Validate(spec);
  if (valid.ok()) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      "the job, named after ", request.job.empty() ? "the program" : "--job",
      ": ", valid.message(), "; --job NAME names it"));
}

absl::Status CheckWorldSize(const RunRequest& request, const JobSpec& spec) {
  const int ranks = spec.mesh.WorldSize();
  if (WorldSize(request) == ranks) return absl::OkStatus();
  const std::string started =
      request.nodes == 1
          ? ""
          : absl::StrFormat(" on each of --nodes %d starts %s", request.nodes,
                            Count(WorldSize(request), "worker"));
  return absl::InvalidArgumentError(absl::StrFormat(
      "-n %d%s, but mesh %s of %s has %s: the job would wait for workers "
      "that nobody starts",
      request.workers, started, ToString(spec.mesh), request.spec_file,
      Count(ranks, "rank")));
}

absl::Status CheckNode(const RunRequest& request) {
  if (request.nodes > 1 && !request.has_address) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--nodes %d without --address: a coordinator of this launcher's own is "
        "not reached from other hosts",
        request.nodes));
  }
  if (request.node_rank < request.nodes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "--node-rank %d, but --nodes %d: nodes are counted from 0",
      request.node_rank, request.nodes));
}

// A spec without max_restarts gets the number of the launcher's restarts.
absl::Status AllowRestarts(const RunRequest& request, RunJob* job) {
  int& allowed = job->spec.limits.max_restarts;
  if (allowed >= request.restarts) return absl::OkStatus();
  if (allowed > 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--restarts %d, but limits.max_restarts of %s is %d: the coordinator "
        "would fail the job before",
        request.restarts, request.spec_file, allowed));
  }
  allowed = request.restarts;
  job->differs_from_file = true;
  return absl::OkStatus();
}

// Likewise, a spec without spares gets those of all launchers, and one restart
// for each of them.
absl::Status AllowSpares(const RunRequest& request, RunJob* job) {
  const int spares = request.spares * request.nodes;
  if (spares == 0) return absl::OkStatus();
  JobLimits& limits = job->spec.limits;
  if (!job->spec.workers.empty() && limits.spares == 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--spares %d, but %s names its workers, and no spares: set "
        "limits.spares, and name them, too",
        request.spares, request.spec_file));
  }
  if (limits.spares > 0 && limits.spares < spares) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--spares %d, but limits.spares of %s is %d: the coordinator would "
        "refuse the others",
        spares, request.spec_file, limits.spares));
  }
  job->differs_from_file |= limits.spares == 0 || limits.max_restarts == 0;
  limits.spares = std::max(limits.spares, spares);
  if (limits.max_restarts == 0) limits.max_restarts = spares;
  return absl::OkStatus();
}

// The workers of the mesh first, those of all hosts, and behind them the
// spares.
std::vector<std::string> WorkerNames(const RunRequest& request,
                                     const JobSpec& spec) {
  std::vector<std::string> names;
  const auto add = [&](int first, int count) {
    for (int i = first; i < first + count; ++i) {
      names.push_back(spec.workers.empty() ? absl::StrCat("worker-", i)
                                           : spec.workers[i]);
    }
  };
  add(request.node_rank * request.workers, request.workers);
  add(WorldSize(request) + request.node_rank * request.spares, request.spares);
  return names;
}

// The job goes on without workers that an elastic axis or spares can replace,
// wherever they run.
int NeededOf(const RunRequest& request, const JobSpec& spec) {
  const int all = request.workers + request.spares;
  if (spec.limits.max_restarts == 0) return all;
  const int may_be_lost = request.spares * request.nodes +
                          spec.mesh.WorldSize() - spec::WorkersMin(spec);
  return std::max(all - may_be_lost, 0);
}

void TrustNetwork(const RunRequest& request, RunJob* job) {
  if (!request.trusts_network) return;
  job->differs_from_file |= job->spec.data_plane != DataPlane::kTrusted;
  job->spec.data_plane = DataPlane::kTrusted;
}

absl::Status Complete(const RunRequest& request, RunJob* job) {
  TrustNetwork(request, job);
  absl::Status may = AllowRestarts(request, job);
  if (may.ok()) may = AllowSpares(request, job);
  if (!may.ok()) return may;
  job->workers = WorkerNames(request, job->spec);
  job->needed = NeededOf(request, job->spec);
  return may;
}

}  // namespace

absl::StatusOr<RunJob> DecideJob(const RunRequest& request,
                                 const std::string& spec_text) {
  if (absl::Status node = CheckNode(request); !node.ok()) return node;
  absl::StatusOr<JobSpec> spec = request.spec_file.empty()
                                     ? SpecWithoutFile(request)
                                     : SpecFromFile(request, spec_text);
  if (!spec.ok()) return spec.status();
  if (absl::Status fits = CheckWorldSize(request, *spec); !fits.ok()) {
    return fits;
  }
  RunJob job{.spec = *std::move(spec)};
  if (absl::Status may = Complete(request, &job); !may.ok()) return may;
  return job;
}

absl::StatusOr<RunJob> JoinExisting(const RunRequest& request,
                                    const JobSpec& existing,
                                    const RunJob& job) {
  if (!request.spec_file.empty()) {
    std::vector<std::string> fields;
    for (const SpecDifference& field : Differences(existing, job.spec)) {
      fields.push_back(absl::StrFormat("%s: %s in the job, %s in %s",
                                       field.field, field.a, field.b,
                                       request.spec_file));
    }
    if (fields.empty()) return job;
    return absl::InvalidArgumentError(
        absl::StrFormat("job %s exists with another spec: %s", existing.name,
                        absl::StrJoin(fields, "; ")));
  }
  RunRequest as_created = request;
  as_created.spec_file = absl::StrCat("job ", existing.name, ", which exists,");
  absl::Status fits = CheckWorldSize(as_created, existing);
  if (!fits.ok()) return fits;
  if (existing.limits.max_restarts < request.restarts) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--restarts %d, but limits.max_restarts of %s is %d: the coordinator "
        "would fail the job before",
        request.restarts, as_created.spec_file, existing.limits.max_restarts));
  }
  if (existing.limits.spares < request.spares * request.nodes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--spares %d, but limits.spares of %s is %d: the coordinator would "
        "refuse the others",
        request.spares * request.nodes, as_created.spec_file,
        existing.limits.spares));
  }
  if (request.trusts_network && existing.data_plane != DataPlane::kTrusted) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--data-plane trusted, but data_plane of %s is local",
                        as_created.spec_file));
  }
  return RunJob{.spec = existing,
                .workers = WorkerNames(request, existing),
                .needed = NeededOf(request, existing),
                .differs_from_file = true};
}

}  // namespace lockstep::ctl

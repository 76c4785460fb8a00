#include "examples/digits/demo/job_files.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/user_file.h"
#include "examples/digits/stages.h"
#include "tools/certs/certificate_folder.h"

namespace lockstep::digits {
namespace {

std::string MeshOf(const Flags& flags) {
  if (!flags.has_stages()) return absl::StrCat("data=", flags.workers);
  return absl::StrFormat(
      "data=%d,pipe=%d%s", flags.replicas(), flags.pipe,
      flags.domain > 1 ? absl::StrFormat(",domain=%d", flags.domain) : "");
}

// The pipeline section of the spec, with the types of activations; empty
// without stages.
std::string PipelineOf(const Flags& flags) {
  if (!flags.has_stages()) return "";
  const int micro_batches = MicroBatches(flags.pipe);
  const int64_t samples =
      Recipe{}.global_batch / flags.replicas() / micro_batches;
  std::string activations;
  for (int stage = 0; stage + 1 < flags.stages(); ++stage) {
    absl::StrAppendFormat(
        &activations, "%s\"f64[%d,%d]\"", stage == 0 ? "" : ", ", samples,
        OutputOfStage(stage, flags.stages(), flags.domain).size());
  }
  return absl::StrFormat(
      "pipeline: {schedule: %s, micro_batches: %d, virtual_stages: %d, "
      "activations: [%s]}\n",
      flags.schedule, micro_batches, flags.virtual_stages(), activations);
}

}  // namespace

std::string WorkerName(int worker) { return absl::StrCat("worker-", worker); }

std::string JobFiles::OfWorker(int worker) const {
  return File(WorkerName(worker));
}

absl::Status JobFiles::MakeCertificates(const std::string& host) const {
  return certs::InitCertificates(File("certs"),
                                 {.hosts = {host}, .now = absl::Now()});
}

std::string JobFiles::CoordinatorTls() const {
  return absl::StrCat(File("certs"), "/", certs::kCoordinatorFolder);
}

std::string JobFiles::WorkerTls() const {
  return absl::StrCat(File("certs"), "/", certs::kWorkerFolder);
}

absl::Status JobFiles::MakeEtcdCertificates(const std::string& host) const {
  return certs::InitCertificates(File("etcd-certs"),
                                 {.hosts = {host}, .now = absl::Now()});
}

std::string JobFiles::EtcdServerTls() const {
  return absl::StrCat(File("etcd-certs"), "/", certs::kCoordinatorFolder);
}

std::string JobFiles::EtcdClientTls() const {
  return absl::StrCat(File("etcd-certs"), "/", certs::kWorkerFolder);
}

absl::Status JobFiles::WriteSpec(const Flags& flags) const {
  const std::string text = absl::StrFormat(
      "name: digits\n"
      "mesh: %s\n"
      "sync: %s\n"
      "transport: %s\n"
      "buckets: {first_bytes_max: 8KiB, bytes_max: 32KiB, wire_dtype: %s, "
      "error_feedback: %s}\n"
      "reproducible: {leaves: %d}\n"
      "run_ahead: %d\n%s%s%s",
      MeshOf(flags), flags.sync, flags.on_gpus() ? "nccl" : flags.transport,
      flags.wire_dtype, flags.error_feedback ? "true" : "false", flags.leaves,
      flags.run_ahead, flags.recovers() ? "limits: {max_restarts: 3}\n" : "",
      flags.shrinks() ? "elastic: {axis: data}\n" : "", PipelineOf(flags));
  return WriteUserFile(Spec(), text);
}

}  // namespace lockstep::digits

// The job spec.

#include "proto/codec.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

static_assert(static_cast<int>(SyncMode::kNegotiated) == v1::SyncMode_MAX);
static_assert(static_cast<int>(Rebuild::kOnDemand) == v1::Rebuild_MAX);
static_assert(static_cast<int>(OnStuck::kEvict) == v1::OnStuck_MAX);
static_assert(static_cast<int>(Uneven::kStop) == v1::Uneven_MAX);

void Write(const BucketPolicy& from, v1::BucketPolicy* to) {
  to->set_first_bytes_max(from.first_bytes_max);
  to->set_bytes_max(from.bytes_max);
  to->set_rebuild(WireOf<v1::Rebuild>(from.rebuild));
}

void Read(const v1::BucketPolicy& from, BucketPolicy* to, Decoder* d) {
  d->NotNegative("first_bytes_max", from.first_bytes_max(),
                 &to->first_bytes_max);
  d->NotNegative("bytes_max", from.bytes_max(), &to->bytes_max);
  d->Enum("rebuild", from.rebuild(), &v1::Rebuild_IsValid, &to->rebuild);
}

void Write(const JobTimeouts& from, v1::JobTimeouts* to) {
  Write(from.join, to->mutable_join());
  Write(from.lease, to->mutable_lease());
  Write(from.resume, to->mutable_resume());
  Write(from.progress, to->mutable_progress());
  Write(from.connect, to->mutable_connect());
}

void Read(const v1::JobTimeouts& from, JobTimeouts* to, Decoder* d) {
  d->Duration("join", from.join(), &to->join);
  d->Duration("lease", from.lease(), &to->lease);
  d->Duration("resume", from.resume(), &to->resume);
  d->Duration("progress", from.progress(), &to->progress);
  d->Duration("connect", from.connect(), &to->connect);
}

void Write(const JobLimits& from, v1::JobLimits* to) {
  to->set_parameters_max(from.parameters_max);
  to->set_max_restarts(from.max_restarts);
  Write(from.restart_window, to->mutable_restart_window());
}

void Read(const v1::JobLimits& from, JobLimits* to, Decoder* d) {
  d->NotNegative("parameters_max", from.parameters_max(), &to->parameters_max);
  d->Int("max_restarts", from.max_restarts(), 0, &to->max_restarts);
  d->Duration("restart_window", from.restart_window(), &to->restart_window);
}

void Write(const JobSpec& from, v1::JobSpec* to) {
  to->set_name(ToUtf8(from.name));
  Write(from.mesh, to->mutable_mesh());
  for (const std::string& name : from.workers) to->add_workers(ToUtf8(name));
  to->set_sync(WireOf<v1::SyncMode>(from.sync));
  to->set_transport(ToUtf8(from.transport));
  Write(from.buckets, to->mutable_buckets());
  Write(from.timeouts, to->mutable_timeouts());
  Write(from.limits, to->mutable_limits());
  to->set_on_stuck(WireOf<v1::OnStuck>(from.on_stuck));
  to->set_uneven(WireOf<v1::Uneven>(from.uneven));
  to->set_seed(from.seed);
}

void Read(const v1::JobSpec& from, JobSpec* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Message("mesh", from.has_mesh(), from.mesh(), &to->mesh);
  d->Names("workers", from.workers(), kRanksMax, &to->workers);
  d->Enum("sync", from.sync(), &v1::SyncMode_IsValid, &to->sync);
  d->Name("transport", from.transport(), &to->transport);
  d->Message("buckets", from.has_buckets(), from.buckets(), &to->buckets);
  d->Message("timeouts", from.has_timeouts(), from.timeouts(), &to->timeouts);
  d->Message("limits", from.has_limits(), from.limits(), &to->limits);
  d->Enum("on_stuck", from.on_stuck(), &v1::OnStuck_IsValid, &to->on_stuck);
  d->Enum("uneven", from.uneven(), &v1::Uneven_IsValid, &to->uneven);
  to->seed = from.seed();
}

v1::JobSpec ToProto(const JobSpec& spec) {
  v1::JobSpec to;
  Write(spec, &to);
  return to;
}

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& spec) {
  return Decode<JobSpec>("JobSpec", spec);
}

}  // namespace lockstep::proto

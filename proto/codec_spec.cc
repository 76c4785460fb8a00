// The codec of the job spec.

#include "proto/codec.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

static_assert(static_cast<int>(SyncMode::kReduceScatter) == v1::SyncMode_MAX);
static_assert(static_cast<int>(Rebuild::kOnDemand) == v1::Rebuild_MAX);
static_assert(static_cast<int>(OnStuck::kEvict) == v1::OnStuck_MAX);
static_assert(static_cast<int>(OnUnsubmitted::kIgnore) ==
              v1::OnUnsubmitted_MAX);
static_assert(static_cast<int>(Uneven::kStop) == v1::Uneven_MAX);
static_assert(static_cast<int>(Overlap::kThread) == v1::Overlap_MAX);

static_assert(static_cast<int>(PipelineSchedule::kZbV) ==
              v1::PipelineSchedule_MAX);
static_assert(static_cast<int>(PipelineTags::kPaired) == v1::PipelineTags_MAX);

void Write(const BucketPolicy& from, v1::BucketPolicy* to) {
  to->set_first_bytes_max(from.first_bytes_max);
  to->set_bytes_max(from.bytes_max);
  to->set_rebuild(WireOf<v1::Rebuild>(from.rebuild));
  if (from.wire_dtype) to->set_wire_dtype(Wire(*from.wire_dtype));
  to->set_error_feedback(from.error_feedback);
  to->set_windows(from.windows);
}

void Read(const v1::BucketPolicy& from, BucketPolicy* to, Decoder* d) {
  d->NotNegative("first_bytes_max", from.first_bytes_max(),
                 &to->first_bytes_max);
  d->NotNegative("bytes_max", from.bytes_max(), &to->bytes_max);
  d->Enum("rebuild", from.rebuild(), &v1::Rebuild_IsValid, &to->rebuild);
  ReadDTypeIfAny("wire_dtype", from.wire_dtype(), &to->wire_dtype, d);
  to->error_feedback = from.error_feedback();
  to->windows = from.windows();
}

void Write(const TensorType& from, v1::TensorType* to) {
  to->set_dtype(Wire(from.dtype));
  to->mutable_shape()->Add(from.shape.begin(), from.shape.end());
}

void Read(const v1::TensorType& from, TensorType* to, Decoder* d) {
  ReadDType(from.dtype(), &to->dtype, d);
  d->Shape("shape", from.shape(), &to->shape);
}

void Write(const Activation& from, v1::Activation* to) {
  for (const TensorType& part : from.parts) Write(part, to->add_parts());
}

void Read(const v1::Activation& from, Activation* to, Decoder* d) {
  d->Each("parts", from.parts(), kManyMax, &to->parts);
}

void Write(const PipelineSpec& from, v1::PipelineSpec* to) {
  to->set_schedule(WireOf<v1::PipelineSchedule>(from.schedule));
  to->set_axis(ToUtf8(from.axis));
  to->set_micro_batches(from.micro_batches);
  to->set_virtual_stages(from.virtual_stages);
  for (const Activation& activation : from.activations) {
    Write(activation, to->add_activations());
  }
  to->set_tags(WireOf<v1::PipelineTags>(from.tags));
  to->set_tag_base(from.tag_base);
  for (const std::string& name : from.shared) to->add_shared(ToUtf8(name));
}

void Read(const v1::PipelineSpec& from, PipelineSpec* to, Decoder* d) {
  d->Enum("schedule", from.schedule(), &v1::PipelineSchedule_IsValid,
          &to->schedule);
  d->Name("axis", from.axis(), &to->axis);
  d->Int("micro_batches", from.micro_batches(), 0, &to->micro_batches);
  d->Int("virtual_stages", from.virtual_stages(), 0, &to->virtual_stages);
  d->Each("activations", from.activations(), kManyMax, &to->activations);
  d->Enum("tags", from.tags(), &v1::PipelineTags_IsValid, &to->tags);
  to->tag_base = from.tag_base();
  d->Names("shared", from.shared(), kManyMax, &to->shared);
}

void Write(const JobTimeouts& from, v1::JobTimeouts* to) {
  Write(from.join, to->mutable_join());
  Write(from.lease, to->mutable_lease());
  Write(from.resume, to->mutable_resume());
  Write(from.progress, to->mutable_progress());
  Write(from.connect, to->mutable_connect());
  Write(from.link, to->mutable_link());
}

void Read(const v1::JobTimeouts& from, JobTimeouts* to, Decoder* d) {
  d->Duration("join", from.join(), &to->join);
  d->Duration("lease", from.lease(), &to->lease);
  d->Duration("resume", from.resume(), &to->resume);
  d->Duration("progress", from.progress(), &to->progress);
  d->Duration("connect", from.connect(), &to->connect);
  if (from.has_link()) d->Duration("link", from.link(), &to->link);
}

void Write(const JobLimits& from, v1::JobLimits* to) {
  to->set_parameters_max(from.parameters_max);
  to->set_max_restarts(from.max_restarts);
  Write(from.restart_window, to->mutable_restart_window());
  to->set_spares(from.spares);
}

void Read(const v1::JobLimits& from, JobLimits* to, Decoder* d) {
  d->NotNegative("parameters_max", from.parameters_max(), &to->parameters_max);
  d->Int("max_restarts", from.max_restarts(), 0, &to->max_restarts);
  d->Duration("restart_window", from.restart_window(), &to->restart_window);
  d->Int("spares", from.spares(), 0, &to->spares);
}

void Write(const ElasticSpec& from, v1::ElasticSpec* to) {
  to->set_axis(ToUtf8(from.axis));
  to->set_min_workers(from.min_workers);
  Write(from.wait, to->mutable_wait());
}

void Read(const v1::ElasticSpec& from, ElasticSpec* to, Decoder* d) {
  d->Name("axis", from.axis(), &to->axis);
  d->Int("min_workers", from.min_workers(), 0, &to->min_workers);
  d->Duration("wait", from.wait(), &to->wait);
}

void Write(const JobSpec& from, v1::JobSpec* to) {
  to->set_name(ToUtf8(from.name));
  Write(from.mesh, to->mutable_mesh());
  for (const std::string& name : from.workers) to->add_workers(ToUtf8(name));
  to->set_sync(WireOf<v1::SyncMode>(from.sync));
  to->set_transport(ToUtf8(from.transport));
  to->set_data_plane_trusted(from.data_plane == DataPlane::kTrusted);
  Write(from.buckets, to->mutable_buckets());
  Write(from.timeouts, to->mutable_timeouts());
  Write(from.limits, to->mutable_limits());
  to->set_on_stuck(WireOf<v1::OnStuck>(from.on_stuck));
  to->set_on_unsubmitted(WireOf<v1::OnUnsubmitted>(from.on_unsubmitted));
  to->set_uneven(WireOf<v1::Uneven>(from.uneven));
  to->set_overlap(WireOf<v1::Overlap>(from.overlap));
  to->set_run_ahead(from.run_ahead);
  to->set_checked(from.checked);
  to->set_seed(from.seed);
  to->set_reproducible_leaves(from.reproducible.leaves);
  if (from.pipeline != PipelineSpec{}) {
    Write(from.pipeline, to->mutable_pipeline());
  }
  if (from.elastic != ElasticSpec{}) {
    Write(from.elastic, to->mutable_elastic());
  }
}

void Read(const v1::JobSpec& from, JobSpec* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Message("mesh", from.has_mesh(), from.mesh(), &to->mesh);
  d->Names("workers", from.workers(), kRanksMax, &to->workers);
  d->Enum("sync", from.sync(), &v1::SyncMode_IsValid, &to->sync);
  d->Name("transport", from.transport(), &to->transport);
  to->data_plane =
      from.data_plane_trusted() ? DataPlane::kTrusted : DataPlane::kLocal;
  d->Message("buckets", from.has_buckets(), from.buckets(), &to->buckets);
  d->Message("timeouts", from.has_timeouts(), from.timeouts(), &to->timeouts);
  d->Message("limits", from.has_limits(), from.limits(), &to->limits);
  d->Enum("on_stuck", from.on_stuck(), &v1::OnStuck_IsValid, &to->on_stuck);
  d->Enum("on_unsubmitted", from.on_unsubmitted(), &v1::OnUnsubmitted_IsValid,
          &to->on_unsubmitted);
  d->Enum("uneven", from.uneven(), &v1::Uneven_IsValid, &to->uneven);
  d->Enum("overlap", from.overlap(), &v1::Overlap_IsValid, &to->overlap);
  d->Int("run_ahead", from.run_ahead(), 0, &to->run_ahead);
  to->checked = from.checked();
  to->seed = from.seed();
  d->Int("reproducible_leaves", from.reproducible_leaves(), 0,
         &to->reproducible.leaves);
  if (from.has_pipeline()) {
    d->Message("pipeline", true, from.pipeline(), &to->pipeline);
  }
  if (from.has_elastic()) {
    d->Message("elastic", true, from.elastic(), &to->elastic);
  }
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

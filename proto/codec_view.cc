// The codec of operators' views.

#include <string>

#include "proto/codec.h"
#include "proto/codec_checkpoint.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

static_assert(static_cast<int>(JobState::kStopped) == v1::JobState_MAX);
static_assert(static_cast<int>(JobCommand::kSave) == v1::JobCommand_MAX);
static_assert(static_cast<int>(WorkerState::kWaiting) == v1::WorkerState_MAX);

// --- Parts ------------------------------------------------------------------

void Write(const WorkerView& from, v1::WorkerView* to) {
  to->set_name(ToUtf8(from.name.value));
  to->set_generation(from.generation.value);
  to->set_state(WireOf<v1::WorkerState>(from.state));
  to->set_rank(from.rank);
  to->mutable_coordinates()->Add(from.coordinates.begin(),
                                 from.coordinates.end());
  Write(from.process, to->mutable_process());
  Write(from.position, to->mutable_position());
  to->set_step_seconds(from.step_seconds);
  to->set_exposed_seconds(from.exposed_seconds);
  to->set_overlap(WireOf<v1::Overlap>(from.overlap));
  to->set_memory(ToUtf8(from.memory));
  Write(from.silent_for, to->mutable_silent_for());
  Write(from.no_progress_for, to->mutable_no_progress_for());
  to->set_busy(ToUtf8(from.busy));
  to->set_revision(from.revision.value);
  to->set_paused(from.paused);
  to->set_lag_seconds(from.lag_seconds);
}

void Read(const v1::WorkerView& from, WorkerView* to, Decoder* d) {
  d->Name("name", from.name(), &to->name.value);
  to->generation = {from.generation()};
  d->Enum("state", from.state(), &v1::WorkerState_IsValid, &to->state);
  d->Int("rank", from.rank(), -1, &to->rank);
  if (d->Count("coordinates", from.coordinates_size(), kDimensionsMax)) {
    for (const uint32_t coordinate : from.coordinates()) {
      d->Int("coordinates", coordinate, 0, &to->coordinates.emplace_back());
    }
  }
  d->Message("process", from.has_process(), from.process(), &to->process);
  d->Message("position", from.has_position(), from.position(), &to->position);
  d->Seconds("step_seconds", from.step_seconds(), &to->step_seconds);
  d->Seconds("exposed_seconds", from.exposed_seconds(), &to->exposed_seconds);
  d->Enum("overlap", from.overlap(), &v1::Overlap_IsValid, &to->overlap);
  d->Text("memory", from.memory(), &to->memory);
  d->Duration("silent_for", from.silent_for(), &to->silent_for);
  d->Duration("no_progress_for", from.no_progress_for(), &to->no_progress_for);
  d->Text("busy", from.busy(), &to->busy);
  to->revision = {from.revision()};
  to->paused = from.paused();
  d->Seconds("lag_seconds", from.lag_seconds(), &to->lag_seconds);
}

void Write(const BucketView& from, v1::BucketView* to) {
  to->set_communicator(ToUtf8(from.communicator));
  to->set_dtype(Wire(from.dtype));
  to->set_op(Wire(from.op));
  to->set_bytes(from.bytes);
  for (const std::string& name : from.parameters) {
    to->add_parameters(ToUtf8(name));
  }
}

void Read(const v1::BucketView& from, BucketView* to, Decoder* d) {
  d->Name("communicator", from.communicator(), &to->communicator);
  ReadDType(from.dtype(), &to->dtype, d);
  ReadOp(from.op(), &to->op, d);
  d->NotNegative("bytes", from.bytes(), &to->bytes);
  d->Names("parameters", from.parameters(), kManyMax, &to->parameters);
}

void Write(const WaitView& from, v1::WaitView* to) {
  to->set_waiter(ToUtf8(from.waiter.value));
  to->set_waited_for(ToUtf8(from.waited_for.value));
  to->set_why(ToUtf8(from.why));
}

void Read(const v1::WaitView& from, WaitView* to, Decoder* d) {
  d->Name("waiter", from.waiter(), &to->waiter.value);
  d->Name("waited_for", from.waited_for(), &to->waited_for.value);
  d->Text("why", from.why(), &to->why);
}

void Write(const LagView& from, v1::LagView* to) {
  to->set_worker(ToUtf8(from.worker.value));
  to->set_parameter(ToUtf8(from.parameter));
  to->set_seconds(from.seconds);
}

void Read(const v1::LagView& from, LagView* to, Decoder* d) {
  d->Name("worker", from.worker(), &to->worker.value);
  d->Name("parameter", from.parameter(), &to->parameter);
  d->Seconds("seconds", from.seconds(), &to->seconds);
}

void Write(const StallView& from, v1::StallView* to) {
  to->set_worker(ToUtf8(from.worker.value));
  to->set_text(ToUtf8(from.text));
}

void Read(const v1::StallView& from, StallView* to, Decoder* d) {
  d->Label("worker", from.worker(), &to->worker.value);
  d->Text("text", from.text(), &to->text);
}

void Write(const EventView& from, v1::EventView* to) {
  Write(from.ago, to->mutable_ago());
  to->set_text(ToUtf8(from.text));
}

void Read(const v1::EventView& from, EventView* to, Decoder* d) {
  d->Duration("ago", from.ago(), &to->ago);
  d->Text("text", from.text(), &to->text);
}

// --- A job ------------------------------------------------------------------

v1::JobView ToProto(const JobView& view) {
  v1::JobView to;
  Write(view.spec, to.mutable_spec());
  to.set_state(WireOf<v1::JobState>(view.state));
  to.set_epoch(view.epoch.value);
  to.set_revision(view.revision.value);
  to.set_plan_digest(ToUtf8(view.plan_digest));
  to.set_missing(view.missing);
  for (const WorkerView& worker : view.workers) Write(worker, to.add_workers());
  for (const Parameter& p : view.parameters) Write(p, to.add_parameters());
  for (const BucketView& bucket : view.buckets) Write(bucket, to.add_buckets());
  for (const WaitView& wait : view.waits) Write(wait, to.add_waits());
  for (const StallView& stall : view.stalls) Write(stall, to.add_stalls());
  for (const LagView& lag : view.lags) Write(lag, to.add_lags());
  Write(view.wanted, to.mutable_wanted());
  Write(view.cause, to.mutable_cause());
  for (const EventView& event : view.events) Write(event, to.add_events());
  to.set_name(ToUtf8(view.name.value));
  to.set_step(view.step);
  for (const std::string& text : view.warnings) to.add_warnings(ToUtf8(text));
  if (!view.checkpoint.empty()) {
    Write(view.checkpoint, to.mutable_checkpoint());
  }
  return to;
}

void Read(const v1::JobView& from, JobView* to, Decoder* d) {
  d->Message("spec", from.has_spec(), from.spec(), &to->spec);
  d->Enum("state", from.state(), &v1::JobState_IsValid, &to->state);
  to->epoch = {from.epoch()};
  to->revision = {from.revision()};
  d->Name("plan_digest", from.plan_digest(), &to->plan_digest);
  d->Int("missing", from.missing(), 0, &to->missing);
  d->Each("workers", from.workers(), kManyMax, &to->workers);
  d->Each("parameters", from.parameters(), kManyMax, &to->parameters);
  d->Each("buckets", from.buckets(), kManyMax, &to->buckets);
  d->Each("waits", from.waits(), kManyMax, &to->waits);
  d->Each("stalls", from.stalls(), kRanksMax, &to->stalls);
  d->Each("lags", from.lags(), kManyMax, &to->lags);
  d->Message("wanted", from.has_wanted(), from.wanted(), &to->wanted);
  d->Message("cause", from.has_cause(), from.cause(), &to->cause);
  d->Each("events", from.events(), kManyMax, &to->events);
  d->Name("name", from.name(), &to->name.value);
  to->step = from.step();
  if (d->Count("warnings", from.warnings_size(), kManyMax)) {
    for (const std::string& text : from.warnings()) {
      d->Text("warnings", text, &to->warnings.emplace_back());
    }
  }
  if (from.has_checkpoint()) {
    d->Message("checkpoint", true, from.checkpoint(), &to->checkpoint);
  }
}

absl::StatusOr<JobView> FromProto(const v1::JobView& view) {
  return Decode<JobView>("JobView", view);
}

v1::JobSummary ToProto(const JobSummary& summary) {
  v1::JobSummary to;
  to.set_name(ToUtf8(summary.name.value));
  to.set_state(WireOf<v1::JobState>(summary.state));
  to.set_epoch(summary.epoch.value);
  to.set_ready(summary.ready);
  to.set_world_size(summary.world_size);
  to.set_step(summary.step);
  return to;
}

void Read(const v1::JobSummary& from, JobSummary* to, Decoder* d) {
  d->Name("name", from.name(), &to->name.value);
  d->Enum("state", from.state(), &v1::JobState_IsValid, &to->state);
  to->epoch = {from.epoch()};
  d->Int("ready", from.ready(), 0, &to->ready);
  d->Int("world_size", from.world_size(), 0, &to->world_size);
  to->step = from.step();
}

absl::StatusOr<JobSummary> FromProto(const v1::JobSummary& summary) {
  return Decode<JobSummary>("JobSummary", summary);
}

v1::LimitUse ToProto(const LimitUse& use) {
  v1::LimitUse to;
  to.set_name(ToUtf8(use.name));
  to.set_value(use.value);
  if (use.used) to.set_used(*use.used);
  to.set_highest(use.highest);
  to.set_refused(use.refused);
  return to;
}

void Read(const v1::LimitUse& from, LimitUse* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->NotNegative("value", from.value(), &to->value);
  if (from.has_used()) {
    d->NotNegative("used", from.used(), &to->used.emplace());
  }
  d->NotNegative("highest", from.highest(), &to->highest);
  d->NotNegative("refused", from.refused(), &to->refused);
}

absl::StatusOr<LimitUse> FromProto(const v1::LimitUse& use) {
  return Decode<LimitUse>("LimitUse", use);
}

v1::JobCommand ToProto(JobCommand command) {
  return WireOf<v1::JobCommand>(command);
}

absl::StatusOr<JobCommand> FromProto(v1::JobCommand command) {
  Decoder decoder("CommandJobRequest");
  JobCommand word{};
  decoder.Enum("command", command, &v1::JobCommand_IsValid, &word);
  if (!decoder.status().ok()) return decoder.status();
  return word;
}

}  // namespace lockstep::proto

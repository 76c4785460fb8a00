#include <nlohmann/json.hpp>

#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

using Json = nlohmann::ordered_json;

std::string_view PhaseName(protocol::Phase phase) {
  switch (phase) {
    case protocol::Phase::kIdle: return "idle";
    case protocol::Phase::kCompute: return "compute";
    case protocol::Phase::kTransfer: return "transfer";
    case protocol::Phase::kVerdict: return "verdict";
  }
  return "?";
}

Json FieldsToJson(const JobSpec& spec) {
  Json fields = Json::object();
  for (const SpecField& field : FieldsOf(spec))
    fields[field.name] = field.value;
  return fields;
}

Json ToJson(const WorkerView& worker) {
  return {
      {"name", worker.name.value},
      {"generation", worker.generation.value},
      {"state", std::string(Name(worker.state))},
      {"rank", worker.rank},
      {"coordinates", worker.coordinates},
      {"host", worker.process.host},
      {"pid", worker.process.pid},
      {"step", worker.position.step},
      {"phase", std::string(PhaseName(worker.position.phase))},
      {"revision", worker.revision.value},
      {"step_seconds", worker.step_seconds},
      {"exposed_seconds", worker.exposed_seconds},
      {"overlap", std::string(Name(worker.overlap))},
      {"memory", worker.memory},
      {"lag_seconds", worker.lag_seconds},
      {"silent_seconds", absl::ToDoubleSeconds(worker.silent_for)},
      {"no_progress_seconds", absl::ToDoubleSeconds(worker.no_progress_for)},
      {"paused", worker.paused},
      {"busy", worker.busy}};
}

Json ToJson(const protocol::DesiredCommands& wanted) {
  Json commands = Json::array();
  for (const Command command : wanted.commands) {
    commands.push_back(std::string(Name(command)));
  }
  return {{"commands", commands}, {"reason", wanted.reason}};
}

Json ToJson(const Parameter& parameter) {
  return {{"name", parameter.name},
          {"shape", parameter.shape},
          {"dtype", std::string(Name(parameter.dtype))},
          {"op", std::string(Name(parameter.op))},
          {"axes", parameter.axes}};
}

Json ToJson(const BucketView& bucket) {
  return {{"communicator", bucket.communicator},
          {"dtype", std::string(Name(bucket.dtype))},
          {"op", std::string(Name(bucket.op))},
          {"bytes", bucket.bytes},
          {"parameters", bucket.parameters}};
}

Json ToJson(const WaitView& wait) {
  return {{"waiter", wait.waiter.value},
          {"waited_for", wait.waited_for.value},
          {"why", wait.why}};
}

Json ToJson(const LimitUse& limit) {
  Json json = {{"name", limit.name}, {"value", limit.value}};
  json["now"] = limit.used ? Json(*limit.used) : Json();
  json["highest"] = limit.highest;
  json["refused"] = limit.refused;
  return json;
}

Json ToJson(const LagView& lag) {
  return {{"worker", lag.worker.value},
          {"parameter", lag.parameter},
          {"seconds", lag.seconds}};
}

Json ToJson(const StallView& stall) {
  return {{"worker", stall.worker.value}, {"text", stall.text}};
}

Json ToJson(const EventView& event) {
  return {{"seconds_ago", absl::ToDoubleSeconds(event.ago)},
          {"text", event.text}};
}

// null: unknown, since it was before the coordinator began.
Json SecondsAgo(absl::Duration ago) {
  if (ago == absl::InfiniteDuration()) return nullptr;
  return absl::ToDoubleSeconds(ago);
}

Json ToJson(const CheckpointView& checkpoint) {
  Json json = {
      {"committed", nullptr}, {"saving", nullptr}, {"failed", nullptr}};
  if (checkpoint.committed) {
    json["committed"] = {{"step", checkpoint.committed->step},
                         {"epoch", checkpoint.committed->epoch},
                         {"attempt", checkpoint.committed->attempt},
                         {"seconds_ago", SecondsAgo(checkpoint.committed_ago)}};
  }
  if (checkpoint.saving) {
    json["saving"] = {
        {"step", checkpoint.saving_step},
        {"bytes_done", checkpoint.bytes_done},
        {"bytes_total", checkpoint.bytes_total},
        {"bytes_per_second", checkpoint.bytes_per_second()},
        {"seconds", absl::ToDoubleSeconds(checkpoint.saving_for)}};
  }
  if (!checkpoint.failure.empty()) {
    json["failed"] = {{"step", checkpoint.failed_step},
                      {"seconds_ago", SecondsAgo(checkpoint.failed_ago)},
                      {"error", checkpoint.failure}};
  }
  return json;
}

Json ToJson(const JobSummary& job) {
  return {
      {"name", job.name.value},       {"state", std::string(Name(job.state))},
      {"epoch", job.epoch.value},     {"ready", job.ready},
      {"world_size", job.world_size}, {"step", job.step}};
}

template <typename T>
Json ListToJson(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(ToJson(value));
  return list;
}

}  // namespace

std::string JobsAsJson(const std::vector<JobSummary>& jobs) {
  return Json{{"jobs", ListToJson(jobs)}}.dump(2) + "\n";
}

std::string LimitsAsJson(const std::vector<LimitUse>& limits) {
  return Json{{"limits", ListToJson(limits)}}.dump(2) + "\n";
}

std::string JobAsJson(const JobView& view, int indent) {
  const Json json = {{"name", view.name.value},
                     {"state", std::string(Name(view.state))},
                     {"mesh", ToString(view.spec.mesh)},
                     {"epoch", view.epoch.value},
                     {"revision", view.revision.value},
                     {"plan_digest", view.plan_digest},
                     {"missing", view.missing},
                     {"wanted", ToJson(view.wanted)},
                     {"workers", ListToJson(view.workers)},
                     {"parameters", ListToJson(view.parameters)},
                     {"buckets", ListToJson(view.buckets)},
                     {"waits", ListToJson(view.waits)},
                     {"stalls", ListToJson(view.stalls)},
                     {"lags", ListToJson(view.lags)},
                     {"checkpoint", ToJson(view.checkpoint)},
                     {"cause", view.cause.message},
                     {"events", ListToJson(view.events)},
                     {"warnings", view.warnings},
                     {"spec", FieldsToJson(view.spec)}};
  return json.dump(indent) + "\n";
}

}  // namespace lockstep::ctl

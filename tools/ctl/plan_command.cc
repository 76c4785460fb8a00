#include "tools/ctl/plan_command.h"

#include <algorithm>
#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/text/units.h"
#include "base/user_file.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "plan/pairs.h"
#include "plan/plan_json.h"
#include "plan/timeline/explain.h"
#include "plan/timeline/timeline.h"
#include "plan/verify/verify.h"
#include "proto/plan_chunks.h"
#include "spec/spec_text.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

constexpr size_t kPlanBytesMax = size_t{1} << 30;
// Sums of such times over any plan fit into int64 nanoseconds.
constexpr absl::Duration kTimeMax = absl::Hours(1);
constexpr int64_t kBandwidthMin = int64_t{1} << 20;

// JSON text begins with a brace; a serialised plan never does.
bool IsJson(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

absl::StatusOr<plan::Plan> PlanIn(const std::string& text) {
  return IsJson(text) ? plan::PlanFromJson(text) : proto::PlanFromBytes(text);
}

absl::StatusOr<plan::Plan> ReadPlan(const std::string& file) {
  absl::StatusOr<std::string> text = ReadUserFile(file, kPlanBytesMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<plan::Plan> plan = PlanIn(*text);
  if (plan.ok()) return plan;
  if (spec::LooksLikeJobSpec(*text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file,
                     ": this is a job spec; compile it first: lockstepctl plan "
                     "compile -f ",
                     file, " -o PLAN"));
  }
  return absl::Status(plan.status().code(),
                      absl::StrCat(file, ": ", plan.status().message()));
}

absl::StatusOr<plan::Plan> ReadVerifiedPlan(const std::string& file) {
  absl::StatusOr<plan::Plan> plan = ReadPlan(file);
  if (!plan.ok()) return plan;
  absl::Status verified = plan::Verify(*plan);
  if (!verified.ok()) return verified;
  return plan;
}

absl::StatusOr<plan::Plan> CompileSpec(const std::string& spec_file) {
  const absl::StatusOr<std::string> text =
      ReadUserFile(spec_file, kHandwrittenBytesMax);
  if (!text.ok()) return text.status();
  const absl::StatusOr<spec::SpecFile> spec =
      spec::ParseSpecFile(*text, spec_file);
  if (!spec.ok()) {
    const absl::StatusOr<plan::Plan> given = PlanIn(*text);
    if (!given.ok() || given->ranks.empty()) return spec.status();
    return absl::InvalidArgumentError(
        absl::StrCat(spec_file, ": this is a compiled plan, not a job spec"));
  }
  auto registrations = spec::RegistrationsOf(*spec);
  if (!registrations.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_file, ":", registrations.status().message()));
  }
  absl::StatusOr<plan::Plan> plan =
      plan::Compile({.mesh = spec->spec.mesh,
                     .sync = spec->spec.sync,
                     .policy = spec->spec.buckets,
                     .registrations = *std::move(registrations),
                     .transports = plan::AssumedTransports(spec->spec),
                     .pipeline = spec->spec.pipeline,
                     .leaves = spec->spec.reproducible.leaves});
  if (plan.ok()) return plan;
  return absl::Status(plan.status().code(),
                      absl::StrCat(spec_file, ": ", plan.status().message()));
}

// --- Times ------------------------------------------------------------------

absl::StatusOr<std::vector<int64_t>> NanosecondsOf(
    const std::vector<std::string>& texts) {
  std::vector<int64_t> times;
  for (const std::string& text : texts) {
    const std::optional<absl::Duration> time = ParseDuration(text);
    if (!time.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" is not a duration such as 500us or 3ms"));
    }
    if (*time > kTimeMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" is longer than ", absl::FormatDuration(kTimeMax)));
    }
    times.push_back(absl::ToInt64Nanoseconds(*time));
  }
  return times;
}

// Each list has one entry for all stages, or one per stage.
absl::StatusOr<std::vector<plan::WorkTimes>> StageTimes(
    const SimulateOptions& options) {
  const auto forward = NanosecondsOf(options.forward);
  const auto input = NanosecondsOf(options.backward_input);
  const auto weight = NanosecondsOf(options.backward_weight);
  for (const auto* list : {&forward, &input, &weight}) {
    if (!list->ok()) return list->status();
  }
  const size_t stages =
      std::max({forward->size(), input->size(), weight->size()});
  std::vector<plan::WorkTimes> times(stages);
  for (size_t i = 0; i < stages; ++i) {
    const auto at = [i](const std::vector<int64_t>& list) {
      return list[std::min(i, list.size() - 1)];
    };
    times[i] = {at(*forward), at(*input), at(*weight)};
  }
  for (const auto* list : {&*forward, &*input, &*weight}) {
    if (list->size() == 1 || list->size() == stages) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d stage times where others have %d", list->size(), stages));
  }
  return times;
}

absl::StatusOr<plan::CostModel> CostsOf(const SimulateOptions& options) {
  absl::StatusOr<std::vector<plan::WorkTimes>> stages = StageTimes(options);
  if (!stages.ok()) return stages.status();
  const auto latency = NanosecondsOf({options.latency});
  if (!latency.ok()) return latency.status();
  plan::CostModel costs{.stages = *std::move(stages),
                        .latency = latency->front()};
  if (options.bandwidth.empty()) return costs;
  const std::optional<int64_t> bytes = ParseSize(options.bandwidth);
  if (!bytes.has_value() || *bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", options.bandwidth,
                     "\" is not a number of bytes a second such as 10GiB"));
  }
  if (*bytes < kBandwidthMin) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", options.bandwidth, "\" is less than 1MiB a second"));
  }
  costs.per_byte = 1e9 / static_cast<double>(*bytes);
  return costs;
}

std::string TimeText(int64_t nanoseconds) {
  return absl::StrFormat("%.3f ms", static_cast<double>(nanoseconds) / 1e6);
}

std::string SimulationText(const plan::Plan& plan,
                           const plan::Timeline& timeline) {
  std::string text = absl::StrCat(
      plan::Headline(plan), "\nstep: ", TimeText(timeline.end),
      ", of which computing ends at ", TimeText(timeline.compute_end),
      "\nbubble: ", plan::PercentText(timeline.bubble), "\n");
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    int64_t busy = 0;
    for (const plan::Span& span : timeline.ranks[rank].tasks) {
      busy += span.end - span.begin;
    }
    absl::StrAppendFormat(&text, "rank %d: computes %s, waits %s\n", rank,
                          TimeText(busy), TimeText(timeline.end - busy));
  }
  return text;
}

}  // namespace

int PlanCompile(const std::string& spec_file, const std::string& out) {
  const absl::StatusOr<plan::Plan> plan = CompileSpec(spec_file);
  if (!plan.ok()) return Refuse(plan.status());
  if (absl::Status good = plan::Verify(*plan); !good.ok()) return Refuse(good);
  absl::Status written = WriteUserFile(out, proto::PlanBytes(*plan));
  if (!written.ok()) return Refuse(written);
  Print(absl::StrCat("compiled ", plan::DigestOf(*plan), ": ",
                     plan::Headline(*plan), "\n"));
  return 0;
}

int PlanVerify(const std::string& file) {
  const absl::StatusOr<plan::Plan> plan = ReadPlan(file);
  if (!plan.ok()) return Refuse(plan.status());
  const absl::Status verified = plan::Verify(*plan);
  if (verified.ok()) {
    Print(absl::StrCat("verified ", plan::DigestOf(*plan), "\n"));
    return 0;
  }
  Print(absl::StrCat("not verified\n", verified.message(), "\n"));
  return 1;
}

int PlanExplain(const std::string& file, const std::string& svg) {
  const absl::StatusOr<plan::Plan> plan = ReadVerifiedPlan(file);
  if (!plan.ok()) return Refuse(plan.status());
  const absl::StatusOr<plan::Timeline> timeline = plan::TimelineOf(*plan, {});
  if (!timeline.ok()) return Refuse(timeline.status());
  if (!svg.empty()) {
    absl::Status drawn = WriteUserFile(svg, plan::ExplainSvg(*plan, *timeline));
    if (!drawn.ok()) return Refuse(drawn);
  }
  Print(plan::ExplainText(*plan, *timeline));
  return 0;
}

int PlanSimulate(const std::string& file, const SimulateOptions& options) {
  const absl::StatusOr<plan::Plan> plan = ReadVerifiedPlan(file);
  if (!plan.ok()) return Refuse(plan.status());
  const absl::StatusOr<plan::CostModel> costs = CostsOf(options);
  if (!costs.ok()) return Refuse(costs.status());
  const absl::StatusOr<plan::Timeline> timeline =
      plan::TimelineOf(*plan, *costs);
  if (!timeline.ok()) return Refuse(timeline.status());
  if (!options.svg.empty()) {
    absl::Status drawn =
        WriteUserFile(options.svg, plan::ExplainSvg(*plan, *timeline));
    if (!drawn.ok()) return Refuse(drawn);
  }
  Print(SimulationText(*plan, *timeline));
  return 0;
}

int PlanExport(const std::string& file, const std::string& out) {
  const absl::StatusOr<plan::Plan> plan = ReadPlan(file);
  if (!plan.ok()) return Refuse(plan.status());
  const std::string text = plan::PlanToJson(*plan);
  if (out.empty()) {
    Print(text);
    return 0;
  }
  absl::Status written = WriteUserFile(out, text);
  return written.ok() ? 0 : Refuse(written);
}

}  // namespace lockstep::ctl

#include "spec/field.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plan/schedule/pipeline_shape.h"
#include "spec/elastic_fields.h"
#include "spec/gradient_fields.h"
#include "spec/pipeline_fields.h"

namespace lockstep::spec {
namespace {

// A member of a spec or of one of its sections.
template <typename T>
struct MemberOfSpec {
  T JobSpec::*member;
  const T& In(const JobSpec& spec) const { return spec.*member; }
  T& In(JobSpec& spec) const { return spec.*member; }
};

template <typename Section, typename T>
struct MemberOfSection {
  Section JobSpec::*section;
  T Section::*member;
  const T& In(const JobSpec& spec) const { return spec.*section.*member; }
  T& In(JobSpec& spec) const { return spec.*section.*member; }
};

template <typename Member, typename Form>
SpecFieldRule RuleFor(std::string name, Member accessor, Form form) {
  return {
      .name = std::move(name),
      .type = form.Type(),
      .domain = form.Domain(),
      .print = [=](const JobSpec& s) { return form.Print(accessor.In(s)); },
      .read =
          [=](const Written& written, JobSpec* spec) {
            auto value = form.Read(written);
            if (value.ok()) accessor.In(*spec) = *std::move(value);
            return value.status();
          },
      .fault = [=](const JobSpec& s) { return form.Fault(accessor.In(s), s); }};
}

template <typename T, typename Form>
SpecFieldRule Field(std::string name, T JobSpec::*member, Form form) {
  return RuleFor(std::move(name), MemberOfSpec<T>{member}, std::move(form));
}

template <typename Section, typename T, typename Form>
SpecFieldRule Field(std::string name, Section JobSpec::*section,
                    T Section::*member, Form form) {
  return RuleFor(std::move(name), MemberOfSection<Section, T>{section, member},
                 std::move(form));
}

SpecFieldRule Required(SpecFieldRule rule) {
  rule.required = true;
  return rule;
}

std::vector<SpecFieldRule> MakeTable() {
  using S = JobSpec;
  using B = BucketPolicy;
  using P = PipelineSpec;
  using T = JobTimeouts;
  using L = JobLimits;
  using E = ElasticSpec;
  const SizeForm bucket{.min = 1, .max = int64_t{1} << 40};
  const DurationForm patience{absl::Milliseconds(1), absl::Hours(720)};
  const DurationForm maybe_none{absl::ZeroDuration(), absl::Hours(720)};
  return {
      Required(Field("name", &S::name, NameForm{})),
      Required(Field("mesh", &S::mesh, MeshForm{})),
      Field("workers", &S::workers, WorkersForm{}),
      Field(
          "sync", &S::sync,
          ChoiceForm<SyncMode>{{{"static", SyncMode::kStatic},
                                {"negotiated", SyncMode::kNegotiated},
                                {"reduce_scatter", SyncMode::kReduceScatter}}}),
      Field("transport", &S::transport,
            ChoiceForm<std::string>{{{"auto", "auto"},
                                     {"gloo", "gloo"},
                                     {"nccl", "nccl"},
                                     {"shm", "shm"}}}),
      Field("data_plane", &S::data_plane,
            ChoiceForm<DataPlane>{{{"local", DataPlane::kLocal},
                                   {"trusted", DataPlane::kTrusted}}}),
      Field("buckets.first_bytes_max", &S::buckets, &B::first_bytes_max,
            bucket),
      Field("buckets.bytes_max", &S::buckets, &B::bytes_max, bucket),
      Field("buckets.rebuild", &S::buckets, &B::rebuild,
            ChoiceForm<Rebuild>{
                {{"once", Rebuild::kOnce}, {"on_demand", Rebuild::kOnDemand}}}),
      Field("buckets.wire_dtype", &S::buckets, &B::wire_dtype, WireDTypeForm{}),
      Field("buckets.error_feedback", &S::buckets, &B::error_feedback,
            ErrorFeedbackForm{}),
      Field("buckets.windows", &S::buckets, &B::windows, WindowsForm{}),
      Field("reproducible.leaves", &S::reproducible, &ReproducibleSpec::leaves,
            LeavesForm{}),
      Field("pipeline.axis", &S::pipeline, &P::axis, PipelineAxisForm{}),
      Field("pipeline.schedule", &S::pipeline, &P::schedule,
            PipelineScheduleForm{}),
      Field("pipeline.micro_batches", &S::pipeline, &P::micro_batches,
            NumberForm<int>{1, 1 << 20}),
      Field("pipeline.virtual_stages", &S::pipeline, &P::virtual_stages,
            NumberForm<int>{1, 1 << 20}),
      Field("pipeline.activations", &S::pipeline, &P::activations,
            ActivationsForm{}),
      Field("pipeline.tags", &S::pipeline, &P::tags, PipelineTagsForm{}),
      Field("pipeline.tag_base", &S::pipeline, &P::tag_base,
            NumberForm<uint64_t>{0, plan::kTagMax}),
      Field("pipeline.shared", &S::pipeline, &P::shared, ParameterNamesForm{}),
      Field("elastic.axis", &S::elastic, &E::axis, ElasticAxisForm{}),
      Field("elastic.min_workers", &S::elastic, &E::min_workers,
            MinWorkersForm{{0, 1 << 20}}),
      Field("elastic.wait", &S::elastic, &E::wait, ElasticWaitForm{maybe_none}),
      Field("timeouts.join", &S::timeouts, &T::join, patience),
      Field("timeouts.lease", &S::timeouts, &T::lease, patience),
      Field("timeouts.resume", &S::timeouts, &T::resume, maybe_none),
      Field("timeouts.progress", &S::timeouts, &T::progress, patience),
      Field("timeouts.connect", &S::timeouts, &T::connect, patience),
      Field("timeouts.link", &S::timeouts, &T::link, patience),
      Field("limits.parameters_max", &S::limits, &L::parameters_max,
            NumberForm<int64_t>{1, 10'000'000}),
      Field("limits.max_restarts", &S::limits, &L::max_restarts,
            NumberForm<int>{0, 1'000'000}),
      Field("limits.restart_window", &S::limits, &L::restart_window, patience),
      Field("limits.spares", &S::limits, &L::spares,
            NumberForm<int>{0, 1'000'000}),
      Field("on_stuck", &S::on_stuck,
            ChoiceForm<OnStuck>{
                {{"report", OnStuck::kReport}, {"evict", OnStuck::kEvict}}}),
      Field("on_unsubmitted", &S::on_unsubmitted,
            ChoiceForm<OnUnsubmitted>{{{"warn", OnUnsubmitted::kWarn},
                                       {"ignore", OnUnsubmitted::kIgnore}}}),
      Field("uneven", &S::uneven,
            ChoiceForm<Uneven>{
                {{"join", Uneven::kJoin}, {"stop", Uneven::kStop}}}),
      Field("overlap", &S::overlap,
            ChoiceForm<Overlap>{{{"auto", Overlap::kAuto},
                                 {"inline", Overlap::kInline},
                                 {"thread", Overlap::kThread}}}),
      Field("run_ahead", &S::run_ahead,
            RunAheadForm{{0, JobSpec::kRunAheadMax}}),
      Field("checked", &S::checked, BoolForm{}),
      Field("seed", &S::seed,
            NumberForm<uint64_t>{0, std::numeric_limits<uint64_t>::max()}),
  };
}

}  // namespace

const std::vector<SpecFieldRule>& SpecFields() {
  static const std::vector<SpecFieldRule>* const table =
      new std::vector<SpecFieldRule>(MakeTable());
  return *table;
}

std::string OneLine(const Written& written) {
  struct Visitor {
    std::string operator()(const std::string& word) const { return word; }
    std::string operator()(const WrittenList& list) const {
      return absl::StrCat("[", absl::StrJoin(list, ", "), "]");
    }
    std::string operator()(const WrittenMap& map) const {
      return absl::StrCat(
          "{", absl::StrJoin(map, ", ", absl::PairFormatter(": ")), "}");
    }
  };
  return std::visit(Visitor{}, written);
}

}  // namespace lockstep::spec

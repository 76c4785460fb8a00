#include "lockstep/job_spec.h"

#include <functional>
#include <limits>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "spec/field.h"

namespace lockstep {
namespace {

// Has what a pipeline over its axis would need, but no pipeline.
JobSpec Digits() {
  return {
      .name = "digits",
      .mesh = {.axes = {{"data", 4}}},
      .pipeline = {.axis = "data", .activations = {{{{DType::kF32, {4, 8}}}}}}};
}

TEST(JobSpecTest, DefaultsWithANameAreValid) {
  EXPECT_TRUE(Validate(Digits()).ok()) << Validate(Digits());
}

TEST(JobSpecTest, ListsItsFieldsWithCanonicalText) {
  const std::vector<SpecField> expected = {
      {"name", "digits"},
      {"mesh", "data=4"},
      {"workers", "[]"},
      {"sync", "static"},
      {"transport", "auto"},
      {"data_plane", "local"},
      {"buckets.first_bytes_max", "1MiB"},
      {"buckets.bytes_max", "25MiB"},
      {"buckets.rebuild", "once"},
      {"buckets.wire_dtype", "none"},
      {"buckets.error_feedback", "false"},
      {"buckets.windows", "false"},
      {"reproducible.leaves", "0"},
      {"pipeline.axis", "data"},
      {"pipeline.schedule", "none"},
      {"pipeline.micro_batches", "1"},
      {"pipeline.virtual_stages", "1"},
      {"pipeline.activations", "[f32[4,8]]"},
      {"pipeline.tags", "safe"},
      {"pipeline.tag_base", "0"},
      {"pipeline.shared", "[]"},
      {"elastic.axis", "none"},
      {"elastic.min_workers", "0"},
      {"elastic.wait", "0"},
      {"timeouts.join", "5m"},
      {"timeouts.lease", "10s"},
      {"timeouts.resume", "1s"},
      {"timeouts.progress", "1m"},
      {"timeouts.connect", "30s"},
      {"timeouts.link", "10s"},
      {"limits.parameters_max", "1000000"},
      {"limits.max_restarts", "0"},
      {"limits.restart_window", "10m"},
      {"limits.spares", "0"},
      {"on_stuck", "report"},
      {"on_unsubmitted", "warn"},
      {"uneven", "stop"},
      {"overlap", "auto"},
      {"run_ahead", "0"},
      {"checked", "false"},
      {"seed", "0"},
  };
  const std::vector<SpecField> fields = FieldsOf(Digits());
  ASSERT_EQ(fields.size(), expected.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(fields[i].name, expected[i].name);
    EXPECT_EQ(fields[i].value, expected[i].value);
  }
}

// Binds every leaf of the struct by name: a new field breaks this function, and
// then needs a row in the table as well.
size_t CountLeaves(const JobSpec& spec) {
  [[maybe_unused]] const auto& [name, mesh, workers, sync, transport,
                                data_plane, buckets, reproducible, pipeline,
                                elastic, timeouts, limits, on_stuck,
                                on_unsubmitted, uneven, overlap, run_ahead,
                                checked, seed] = spec;
  [[maybe_unused]] const auto& [leaves] = reproducible;
  [[maybe_unused]] const auto& [first_bytes_max, bytes_max, rebuild, wire_dtype,
                                error_feedback, windows] = buckets;
  [[maybe_unused]] const auto& [join, lease, resume, progress, connect, link] =
      timeouts;
  [[maybe_unused]] const auto& [parameters_max, max_restarts, restart_window,
                                spares] = limits;
  [[maybe_unused]] const auto& [elastic_axis, min_workers, wait] = elastic;
  [[maybe_unused]] const auto& [schedule, axis, micro_batches, virtual_stages,
                                activations, tags, tag_base, shared] = pipeline;
  return 13 + 6 + 1 + 8 + 3 + 6 + 4;
}

TEST(JobSpecTest, TheTableHasEveryFieldOfTheStruct) {
  EXPECT_EQ(spec::SpecFields().size(), CountLeaves(Digits()));
}

// One change for each field, all of them valid.
std::vector<std::pair<std::string, std::function<void(JobSpec&)>>> Changes() {
  return {
      {"name", [](JobSpec& s) { s.name = "other"; }},
      {"mesh", [](JobSpec& s) { s.mesh.axes[0].size = 5; }},
      {"workers",
       [](JobSpec& s) {
         s.workers = {"a", "b", "c", "d"};
       }},
      {"sync", [](JobSpec& s) { s.sync = SyncMode::kNegotiated; }},
      {"transport", [](JobSpec& s) { s.transport = "shm"; }},
      {"data_plane", [](JobSpec& s) { s.data_plane = DataPlane::kTrusted; }},
      {"buckets.first_bytes_max",
       [](JobSpec& s) { s.buckets.first_bytes_max = 1; }},
      {"buckets.bytes_max", [](JobSpec& s) { s.buckets.bytes_max = 4097; }},
      {"buckets.rebuild",
       [](JobSpec& s) { s.buckets.rebuild = Rebuild::kOnDemand; }},
      {"buckets.wire_dtype",
       [](JobSpec& s) { s.buckets.wire_dtype = DType::kF16; }},
      {"buckets.error_feedback",
       [](JobSpec& s) { s.buckets.error_feedback = true; }},
      {"buckets.windows", [](JobSpec& s) { s.buckets.windows = true; }},
      {"reproducible.leaves", [](JobSpec& s) { s.reproducible.leaves = 8; }},
      {"pipeline.axis", [](JobSpec& s) { s.pipeline.axis = "stage"; }},
      {"pipeline.schedule",
       [](JobSpec& s) { s.pipeline.schedule = PipelineSchedule::kGPipe; }},
      {"pipeline.micro_batches",
       [](JobSpec& s) { s.pipeline.micro_batches = 8; }},
      {"pipeline.virtual_stages",
       [](JobSpec& s) { s.pipeline.virtual_stages = 2; }},
      {"pipeline.activations",
       [](JobSpec& s) { s.pipeline.activations[0].parts[0].shape = {}; }},
      {"pipeline.tags",
       [](JobSpec& s) { s.pipeline.tags = PipelineTags::kPaired; }},
      {"pipeline.tag_base", [](JobSpec& s) { s.pipeline.tag_base = 1000; }},
      {"pipeline.shared", [](JobSpec& s) { s.pipeline.shared = {"embed"}; }},
      {"elastic.axis", [](JobSpec& s) { s.elastic.axis = "data"; }},
      {"elastic.min_workers", [](JobSpec& s) { s.elastic.min_workers = 4; }},
      {"elastic.wait",
       [](JobSpec& s) { s.elastic.wait = absl::Milliseconds(1500); }},
      {"timeouts.join", [](JobSpec& s) { s.timeouts.join = absl::Hours(1); }},
      {"timeouts.lease",
       [](JobSpec& s) { s.timeouts.lease = absl::Milliseconds(50); }},
      {"timeouts.resume",
       [](JobSpec& s) { s.timeouts.resume = absl::ZeroDuration(); }},
      {"timeouts.progress",
       [](JobSpec& s) { s.timeouts.progress = absl::Seconds(90); }},
      {"timeouts.connect",
       [](JobSpec& s) { s.timeouts.connect = absl::Seconds(1); }},
      {"timeouts.link", [](JobSpec& s) { s.timeouts.link = absl::Seconds(3); }},
      {"limits.parameters_max",
       [](JobSpec& s) { s.limits.parameters_max = 1; }},
      {"limits.max_restarts", [](JobSpec& s) { s.limits.max_restarts = 3; }},
      {"limits.restart_window",
       [](JobSpec& s) { s.limits.restart_window = absl::Hours(2); }},
      {"limits.spares", [](JobSpec& s) { s.limits.spares = 2; }},
      {"on_stuck", [](JobSpec& s) { s.on_stuck = OnStuck::kEvict; }},
      {"on_unsubmitted",
       [](JobSpec& s) { s.on_unsubmitted = OnUnsubmitted::kIgnore; }},
      {"uneven", [](JobSpec& s) { s.uneven = Uneven::kJoin; }},
      {"overlap", [](JobSpec& s) { s.overlap = Overlap::kThread; }},
      {"run_ahead", [](JobSpec& s) { s.run_ahead = 1; }},
      {"checked", [](JobSpec& s) { s.checked = true; }},
      {"seed",
       [](JobSpec& s) { s.seed = std::numeric_limits<uint64_t>::max(); }},
  };
}

// The spec that the change applies to: error feedback needs a cast, numbers of
// an elastic axis need the axis, and run-ahead needs devices.
JobSpec Before(const std::string& field) {
  JobSpec spec = Digits();
  const bool needs_axis =
      field == "elastic.min_workers" || field == "elastic.wait";
  if (needs_axis) spec.elastic.axis = "data";
  if (field == "buckets.error_feedback") {
    spec.buckets.wire_dtype = DType::kBF16;
  }
  if (field == "run_ahead") spec.transport = "nccl";
  if (field == "buckets.windows") {
    spec.transport = "nccl";
    spec.run_ahead = 1;
  }
  return spec;
}

TEST(JobSpecTest, ADifferenceNamesItsFieldAndBothValues) {
  ASSERT_EQ(Changes().size(), spec::SpecFields().size());
  for (const auto& [field, change] : Changes()) {
    JobSpec changed = Before(field);
    change(changed);
    EXPECT_TRUE(Validate(changed).ok()) << Validate(changed);
    const std::vector<SpecDifference> differences =
        Differences(Before(field), changed);
    ASSERT_EQ(differences.size(), 1u) << field;
    EXPECT_EQ(differences[0].field, field);
    EXPECT_NE(differences[0].a, differences[0].b);
  }
  EXPECT_TRUE(Differences(Digits(), Digits()).empty());
}

TEST(JobSpecTest, EveryFieldReadsItsCanonicalText) {
  for (const auto& [field, change] : Changes()) {
    JobSpec changed = Digits();
    change(changed);
    JobSpec read;
    for (const spec::SpecFieldRule& rule : spec::SpecFields()) {
      ASSERT_TRUE(rule.read(rule.print(changed), &read).ok()) << rule.name;
    }
    EXPECT_EQ(read, changed) << field;
  }
}

struct Fault {
  const char* field;
  std::function<void(JobSpec&)> damage;
};

std::vector<Fault> Faults() {
  return {
      {"name", [](JobSpec& s) { s.name = ""; }},
      {"name", [](JobSpec& s) { s.name = "-x"; }},
      {"name", [](JobSpec& s) { s.name = "a b"; }},
      {"name", [](JobSpec& s) { s.name = std::string(64, 'x'); }},
      {"mesh", [](JobSpec& s) { s.mesh.axes[0].size = 0; }},
      {"mesh",
       [](JobSpec& s) {
         s.mesh.axes.push_back({"data", 2});
       }},
      {"workers",
       [](JobSpec& s) {
         s.workers = {"a", "b", "c"};
       }},
      {"workers",
       [](JobSpec& s) {
         s.workers = {"a", "b", "c", "a"};
       }},
      {"workers",
       [](JobSpec& s) {
         s.workers = {"a", "b", "c", ""};
       }},
      {"sync", [](JobSpec& s) { s.sync = static_cast<SyncMode>(0); }},
      {"transport", [](JobSpec& s) { s.transport = "pigeon"; }},
      {"data_plane",
       [](JobSpec& s) { s.data_plane = static_cast<DataPlane>(0); }},
      {"buckets.first_bytes_max",
       [](JobSpec& s) { s.buckets.first_bytes_max = 0; }},
      {"buckets.bytes_max",
       [](JobSpec& s) { s.buckets.bytes_max = int64_t{1} << 41; }},
      {"buckets.rebuild",
       [](JobSpec& s) { s.buckets.rebuild = static_cast<Rebuild>(0); }},
      {"buckets.wire_dtype",
       [](JobSpec& s) { s.buckets.wire_dtype = DType::kF32; }},
      {"buckets.error_feedback",
       [](JobSpec& s) { s.buckets.error_feedback = true; }},
      {"buckets.error_feedback",
       [](JobSpec& s) {
         s.sync = SyncMode::kNegotiated;
         s.buckets.wire_dtype = DType::kF16;
         s.buckets.error_feedback = true;
       }},
      {"buckets.windows", [](JobSpec& s) { s.buckets.windows = true; }},
      {"reproducible.leaves", [](JobSpec& s) { s.reproducible.leaves = -1; }},
      {"reproducible.leaves", [](JobSpec& s) { s.reproducible.leaves = 6; }},
      {"reproducible.leaves", [](JobSpec& s) { s.reproducible.leaves = 2048; }},
      {"reproducible.leaves",
       [](JobSpec& s) {
         s.mesh.axes = {{"data", 3}, {"tensor", 6}};
         s.reproducible.leaves = 8;
       }},
      {"reproducible.leaves",
       [](JobSpec& s) {
         s.mesh.axes = {{"data", 16}};
         s.reproducible.leaves = 8;
       }},
      {"reproducible.leaves",
       [](JobSpec& s) {
         s.sync = SyncMode::kReduceScatter;
         s.reproducible.leaves = 8;
       }},
      {"reproducible.leaves",
       [](JobSpec& s) {
         s.buckets.wire_dtype = DType::kBF16;
         s.reproducible.leaves = 8;
       }},
      {"pipeline.axis",
       [](JobSpec& s) {
         s.pipeline.schedule = PipelineSchedule::kGPipe;
         s.pipeline.axis = "depth";
       }},
      {"pipeline.schedule",
       [](JobSpec& s) {
         s.pipeline.schedule = static_cast<PipelineSchedule>(9);
       }},
      {"pipeline.schedule",
       [](JobSpec& s) { s.pipeline.schedule = PipelineSchedule::kZbV; }},
      {"pipeline.schedule",
       [](JobSpec& s) {
         s.sync = SyncMode::kNegotiated;
         s.pipeline.schedule = PipelineSchedule::kGPipe;
       }},
      {"pipeline.micro_batches",
       [](JobSpec& s) { s.pipeline.micro_batches = 0; }},
      {"pipeline.virtual_stages",
       [](JobSpec& s) { s.pipeline.virtual_stages = 0; }},
      {"pipeline.activations",
       [](JobSpec& s) {
         s.pipeline.schedule = PipelineSchedule::kGPipe;
         s.pipeline.activations.clear();
       }},
      {"pipeline.tags",
       [](JobSpec& s) { s.pipeline.tags = static_cast<PipelineTags>(0); }},
      {"pipeline.tag_base",
       [](JobSpec& s) { s.pipeline.tag_base = uint64_t{1} << 33; }},
      {"pipeline.shared",
       [](JobSpec& s) {
         s.pipeline.shared = {"a", "a"};
       }},
      {"elastic.axis", [](JobSpec& s) { s.elastic.axis = "model"; }},
      {"elastic.axis",
       [](JobSpec& s) {
         s.mesh.axes = {{"none", 4}};  // the text for no axis
         s.elastic.axis = "none";
       }},
      {"elastic.axis",
       [](JobSpec& s) {
         s.pipeline.schedule = PipelineSchedule::kGPipe;
         s.elastic.axis = "data";
       }},
      {"elastic.axis",
       [](JobSpec& s) {
         s.mesh.axes = {{"data", 6}, {"model", 2}};
         s.reproducible.leaves = 8;
         s.elastic.axis = "data";
       }},
      {"elastic.min_workers", [](JobSpec& s) { s.elastic.min_workers = 2; }},
      {"elastic.min_workers", [](JobSpec& s) { s.elastic.min_workers = -1; }},
      {"elastic.min_workers",
       [](JobSpec& s) { s.elastic = {.axis = "data", .min_workers = 5}; }},
      {"elastic.wait", [](JobSpec& s) { s.elastic.wait = absl::Seconds(1); }},
      {"elastic.wait",
       [](JobSpec& s) {
         s.elastic = {.axis = "data", .wait = -absl::Seconds(1)};
       }},
      {"timeouts.join",
       [](JobSpec& s) { s.timeouts.join = absl::InfiniteDuration(); }},
      {"timeouts.lease", [](JobSpec& s) { s.timeouts.lease = {}; }},
      {"timeouts.resume",
       [](JobSpec& s) { s.timeouts.resume = -absl::Seconds(1); }},
      {"timeouts.progress",
       [](JobSpec& s) { s.timeouts.progress = absl::Microseconds(1500); }},
      {"timeouts.connect",
       [](JobSpec& s) { s.timeouts.connect = absl::Hours(1000); }},
      {"timeouts.link", [](JobSpec& s) { s.timeouts.link = {}; }},
      {"limits.parameters_max",
       [](JobSpec& s) { s.limits.parameters_max = 0; }},
      {"limits.max_restarts", [](JobSpec& s) { s.limits.max_restarts = -1; }},
      {"limits.restart_window",
       [](JobSpec& s) { s.limits.restart_window = {}; }},
      {"limits.spares", [](JobSpec& s) { s.limits.spares = -1; }},
      {"on_stuck", [](JobSpec& s) { s.on_stuck = static_cast<OnStuck>(7); }},
      {"on_unsubmitted",
       [](JobSpec& s) { s.on_unsubmitted = static_cast<OnUnsubmitted>(3); }},
      {"uneven", [](JobSpec& s) { s.uneven = static_cast<Uneven>(0); }},
      {"overlap", [](JobSpec& s) { s.overlap = static_cast<Overlap>(0); }},
      {"run_ahead", [](JobSpec& s) { s.run_ahead = 1; }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.run_ahead = -1;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.run_ahead = 3;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.sync = SyncMode::kNegotiated;
         s.run_ahead = 1;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.sync = SyncMode::kReduceScatter;
         s.run_ahead = 1;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.reproducible.leaves = 8;
         s.run_ahead = 1;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.buckets.wire_dtype = DType::kBF16;
         s.buckets.error_feedback = true;
         s.run_ahead = 1;
       }},
      {"run_ahead",
       [](JobSpec& s) {
         s.transport = "nccl";
         s.pipeline.schedule = PipelineSchedule::kGPipe;
         s.run_ahead = 1;
       }},
  };
}

TEST(JobSpecTest, AFaultNamesItsField) {
  for (const Fault& fault : Faults()) {
    JobSpec spec = Digits();
    fault.damage(spec);
    const absl::Status status = Validate(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fault.field;
    EXPECT_EQ(status.message().rfind(std::string(fault.field) + ": ", 0), 0u)
        << status;
  }
}

TEST(JobSpecTest, NamesAreForRanksAndSpares) {
  JobSpec spec = Digits();
  spec.limits.spares = 1;
  spec.workers = {"a", "b", "c", "d", "e"};
  EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  spec.workers.pop_back();
  EXPECT_FALSE(Validate(spec).ok());
}

TEST(JobSpecTest, EveryFieldButTheSeedAndCheckedCanBeAtFault) {
  std::set<std::string> at_fault;
  for (const Fault& fault : Faults()) at_fault.insert(fault.field);
  EXPECT_EQ(at_fault.size() + 2, spec::SpecFields().size());
}

}  // namespace
}  // namespace lockstep

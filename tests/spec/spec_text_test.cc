#include "spec/spec_text.h"

#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/field.h"

namespace lockstep::spec {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(SpecTextTest, ReadsEveryField) {
  const absl::StatusOr<JobSpec> spec = ParseJobSpec(R"(
name: digits
mesh: data=2,pipe=2
workers: [a, b, c, d]
sync: negotiated
transport: shm
data_plane: trusted
buckets: {first_bytes_max: 4096, bytes_max: 2MiB, wire_dtype: f16}
timeouts:
  join: 1h
  lease: 2s
  resume: 0
  progress: 1m30s
  connect: 500ms
  link: 4s
limits:
  parameters_max: 10
  max_restarts: 3
  restart_window: 5m
on_stuck: evict
on_unsubmitted: ignore
uneven: join
overlap: inline
checked: true
seed: 18446744073709551615
)",
                                                    "spec.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const JobSpec expected{.name = "digits",
                         .mesh = {.axes = {{"data", 2}, {"pipe", 2}}},
                         .workers = {"a", "b", "c", "d"},
                         .sync = SyncMode::kNegotiated,
                         .transport = "shm",
                         .data_plane = DataPlane::kTrusted,
                         .buckets = {.first_bytes_max = 4096,
                                     .bytes_max = 2 << 20,
                                     .wire_dtype = DType::kF16},
                         .timeouts = {.join = absl::Hours(1),
                                      .lease = absl::Seconds(2),
                                      .resume = absl::ZeroDuration(),
                                      .progress = absl::Seconds(90),
                                      .connect = absl::Milliseconds(500),
                                      .link = absl::Seconds(4)},
                         .limits = {.parameters_max = 10,
                                    .max_restarts = 3,
                                    .restart_window = absl::Minutes(5)},
                         .on_stuck = OnStuck::kEvict,
                         .on_unsubmitted = OnUnsubmitted::kIgnore,
                         .uneven = Uneven::kJoin,
                         .overlap = Overlap::kInline,
                         .checked = true,
                         .seed = 18446744073709551615u};
  EXPECT_EQ(*spec, expected);
}

// A field may be out of its domain because of another one.
TEST(SpecTextTest, AFaultNamesTheLineOfTheFieldOrOfItsSection) {
  const struct {
    const char* pipeline;
    int line;
  } cases[] = {
      {"pipeline: {schedule: 1f1b, micro_batches: 4}", 3},
      {"seed: 1\npipeline:\n  schedule: 1f1b\n  axis: pip", 6},
      {"pipeline.schedule: 1f1b\npipeline.micro_batches: 4", 3},
  };
  for (const auto& c : cases) {
    const absl::Status read =
        ParseJobSpec(absl::StrCat("name: x\nmesh: data=4\n", c.pipeline), "f")
            .status();
    EXPECT_THAT(std::string(read.message()),
                StartsWith(absl::StrCat("f:", c.line, ": pipeline.axis: pip")))
        << c.pipeline;
  }
}

TEST(SpecTextTest, ATextWithBracketsWithoutQuotesGetsAHint) {
  for (const char* pipeline :
       {"{activations: [f32[4,8]]}", "{activations: f32[4,8]}",
        "{activations: [f32[4,8}"}) {
    const absl::Status read =
        ParseJobSpec(
            absl::StrCat("name: x\nmesh: pipe=2\npipeline: ", pipeline), "f")
            .status();
    EXPECT_THAT(std::string(read.message()),
                StartsWith("f:3: the text is not YAML: "))
        << pipeline;
    EXPECT_THAT(std::string(read.message()), HasSubstr("needs quotes"))
        << pipeline;
  }
  EXPECT_THAT(ParseJobSpec("name: x\nmesh: \"data=4\n", "f").status().message(),
              Not(HasSubstr("needs quotes")));
}

TEST(SpecTextTest, FieldsThatAreNotThereHaveTheirDefaults) {
  const absl::StatusOr<JobSpec> spec =
      ParseJobSpec("name: digits\nmesh: data=4\n", "f");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(*spec, (JobSpec{.name = "digits", .mesh = {{{"data", 4}}}}));
}

TEST(SpecTextTest, AMeshMayBeAMapInItsOrder) {
  for (const char* mesh : {"{pipe: 2, data: 3}", "\n  pipe: 2\n  data: 3",
                           "pipe=2,data=3", "\"pipe=2, data=3\""}) {
    const absl::StatusOr<JobSpec> spec =
        ParseJobSpec(absl::StrCat("name: x\nmesh: ", mesh), "f");
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(ToString(spec->mesh), "pipe=2,data=3");
  }
}

TEST(SpecTextTest, ReadsJsonAsWell) {
  const absl::StatusOr<JobSpec> spec = ParseJobSpec(
      "{\n\t\"name\": \"digits\",\n\t\"mesh\": {\"data\": 2},\n"
      "\t\"timeouts\": {\"lease\": \"2s\"},\n\t\"workers\": [\"a\", \"b\"],\n"
      "\t\"seed\": 7\n}\n",
      "f.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->timeouts.lease, absl::Seconds(2));
  EXPECT_EQ(spec->workers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(spec->seed, 7u);
}

TEST(SpecTextTest, AFieldOfASectionMayBeWrittenInFull) {
  const absl::StatusOr<JobSpec> spec =
      ParseJobSpec("name: x\nmesh: data=1\ntimeouts.lease: 3s\n", "f");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->timeouts.lease, absl::Seconds(3));
}

struct BadText {
  std::string text;
  int line;
  std::string field;  // empty: the text as a whole
  std::string mentions;
};

std::vector<BadText> BadTexts() {
  const std::string good = "name: x\nmesh: data=4\n";
  return {
      // Text that is not a spec.
      {"", 1, "", "empty"},
      {"# nothing\n", 1, "", "empty"},
      {"name: [a\nmesh: data=4\n", 2, "", "YAML"},
      {"name: x\n mesh: y\n", 2, "", "YAML"},
      {"{\"name\": \"x\",\n\"mesh\": }", 2, "mesh", "no value"},
      {"name: *nobody\n", 1, "", "YAML"},
      {"name: &a x\nmesh: *a\n", 2, "", "alias"},
      {"- a\n- b\n", 1, "", "map"},
      {"just words\n", 1, "", "map"},
      {good + "---\nname: y\n", 3, "", "goes on"},
      {"\n" + std::string(10'000, '['), 2, "", "nested deeper than 64"},
      {"name: {a: " + std::string(10'000, '{'), 1, "", "nested deeper than 64"},
      {",name: x\n", 1, "", "goes on"},  // yaml-cpp's LoadAll never returns
      {"? [a]\n: b\n", 1, "", "key"},
      // Keys.
      {"name: x\nmesh: data=4\nname: y\n", 3, "name", "line 1"},
      {good + "buckets:\n  bytes_max: 1MiB\n  bytes_max: 2MiB\n", 5,
       "buckets.bytes_max", "line 4"},
      {good + "buckets: {bytes_max: 1MiB}\nbuckets.bytes_max: 2MiB\n", 4,
       "buckets.bytes_max", "line 3"},
      {good + "buckets: {}\nbuckets: {}\n", 4, "buckets", "line 3"},
      {good + "trasport: gloo\n", 3, "trasport", "transport"},
      {good + "timeouts: {leese: 1s}\n", 3, "timeouts.leese", "timeouts.lease"},
      {good + "bytes_max: 1MiB\n", 3, "bytes_max", "buckets.bytes_max"},
      {good + "bucket: {bytes_max: 1MiB}\n", 3, "bucket", "buckets"},
      {good + "<<: {seed: 1}\n", 3, "<<", "no field"},
      {good + "buckets: {buckets: {bytes_max: 1}}\n", 3, "buckets.buckets",
       "no field"},
      // The wire type of gradients.
      {good + "buckets: {wire_dtype: f8}\n", 3, "buckets.wire_dtype",
       "none, bf16, f16"},
      {good + "buckets: {wire_dtype: f32}\n", 3, "buckets.wire_dtype", "f32"},
      {good + "buckets: {error_feedback: yes}\n", 3, "buckets.error_feedback",
       "false, true"},
      {good + "buckets: {error_feedback: true}\n", 3, "buckets.error_feedback",
       "wire_dtype"},
      {good + "sync: negotiated\n"
              "buckets: {wire_dtype: bf16, error_feedback: true}\n",
       4, "buckets.error_feedback", "negotiated"},
      {good + "transport: nccl\nbuckets: {windows: true}\n", 4,
       "buckets.windows", "run_ahead: 1 or 2"},
      {good + "reproducible: {leaves: 6}\n", 3, "reproducible.leaves",
       "power of two"},
      {good + "reproducible: {leaves: many}\n", 3, "reproducible.leaves",
       "power of two"},
      {good + "sync: negotiated\nreproducible: {leaves: 8}\n", 4,
       "reproducible.leaves", "static"},
      // Steps in flight.
      {good + "run_ahead: 1\n", 3, "run_ahead", "transport: nccl"},
      {good + "transport: nccl\nrun_ahead: 3\n", 4, "run_ahead", "0 to 2"},
      {good + "transport: nccl\nsync: negotiated\nrun_ahead: 1\n", 5,
       "run_ahead", "negotiated"},
      // Required fields.
      {"mesh: data=4\n", 1, "name", "missing"},
      {"\n\nname: x\n", 3, "mesh", "missing"},
      // Values of the wrong form.
      {"name:\nmesh: data=4\n", 1, "name", "no value"},
      {"name: ~\nmesh: data=4\n", 1, "name", "no value"},
      {"name: [x]\nmesh: data=4\n", 1, "name", "list"},
      {"name: {x: y}\nmesh: data=4\n", 1, "name", "map"},
      {"name: x\nmesh: [data, 4]\n", 2, "mesh", "list"},
      {"name: x\nmesh: data\n", 2, "mesh", "data"},
      {"name: x\nmesh: {data: many}\n", 2, "mesh", "many"},
      {"name: x\nmesh: {data: }\n", 2, "mesh", "without a value"},
      {"name: x\nmesh: {data: [4]}\n", 2, "mesh", "no word"},
      {"name: x\nmesh: &m {data: *m}\n", 2, "", "alias"},
      {good + "workers: a\n", 3, "workers", "list"},
      {good + "workers: [a, ~]\n", 3, "workers", "without a value"},
      {good + "workers: [a, [b]]\n", 3, "workers", "no word"},
      {good + "buckets: 25MiB\n", 3, "buckets", "buckets.bytes_max"},
      {good + "buckets:\n  bytes_max: 25MB\n", 4, "buckets.bytes_max", "25MB"},
      {good + "timeouts:\n  join: 5m\n  lease: 10\n", 5, "timeouts.lease",
       "10s"},
      {good + "limits: {max_restarts: 1.5}\n", 3, "limits.max_restarts",
       "whole number"},
      {good + "limits: {max_restarts: yes}\n", 3, "limits.max_restarts",
       "whole number"},
      {good + "seed: -1\n", 3, "seed", "-1"},
      {good + "sync: dynamic\n", 3, "sync", "negotiated"},
      {good + "transport: pigeon\n", 3, "transport", "auto, gloo, nccl, shm"},
      // Values out of their domain.
      {"name: -x\nmesh: data=4\n", 1, "name", "-x"},
      {"name: x\nmesh: data=0\n", 2, "mesh", "data"},
      {"name: x\nmesh: {data: 2, data: 3}\n", 2, "mesh", "twice"},
      {"name: x\nmesh: {data: 4}\nworkers: [a, b]\n", 3, "workers", "4 ranks"},
      {"name: x\nworkers: [a, a]\nmesh: {data: 2}\n", 2, "workers", "twice"},
      {good + "buckets: {bytes_max: 0}\n", 3, "buckets.bytes_max", "1TiB"},
      {good + "timeouts:\n  lease: 0s\n", 4, "timeouts.lease", "1ms"},
      {good + "timeouts: {lease: 1500us}\n", 3, "timeouts.lease", "whole"},
      {good + "limits: {max_restarts: -1}\n", 3, "limits.max_restarts", "-1"},
  };
}

TEST(SpecTextTest, AnErrorSaysFileLineAndField) {
  for (const BadText& bad : BadTexts()) {
    const absl::Status status = ParseJobSpec(bad.text, "job.yaml").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    const std::string message(status.message());
    const std::string place = absl::StrCat("job.yaml:", bad.line, ": ");
    EXPECT_THAT(message, StartsWith(bad.field.empty()
                                        ? place
                                        : absl::StrCat(place, bad.field, ": ")))
        << bad.text;
    EXPECT_THAT(message, HasSubstr(bad.mentions)) << bad.text;
  }
}

TEST(SpecTextTest, JsonErrorsHaveLinesToo) {
  const absl::Status status =
      ParseJobSpec(
          "{\n  \"name\": \"x\",\n  \"mesh\": \"data=4\",\n"
          "  \"seed\": \"many\"\n}\n",
          "job.json")
          .status();
  EXPECT_THAT(std::string(status.message()),
              StartsWith("job.json:4: seed: \"many\""));
}

TEST(SpecTextTest, RefusesATextBeyondAMebibyte) {
  const std::string text = "name: x\n#" + std::string(1 << 20, '.');
  EXPECT_THAT(std::string(ParseJobSpec(text, "f").status().message()),
              HasSubstr("limit"));
}

JobSpec RandomSpec(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto milliseconds = [&] {
    return absl::Milliseconds(1 + static_cast<int64_t>(random() % 1000000));
  };
  JobSpec spec{.name = random() % 2 == 0 ? "null" : "a.b-c_4"};
  if (random() % 4 != 0) spec.mesh.axes.push_back({"data", 2});
  if (random() % 2 == 0) spec.mesh.axes.push_back({"n", 3});
  if (random() % 2 == 0) {
    for (int i = 0; i < spec.mesh.WorldSize(); ++i) {
      spec.workers.push_back(absl::StrCat(i));
    }
    spec.workers[0] = "null";
  }
  spec.buckets.bytes_max = 1 + static_cast<int64_t>(random() >> 24);
  spec.timeouts = {milliseconds(), milliseconds(), milliseconds(),
                   milliseconds(), milliseconds(), milliseconds()};
  spec.limits.max_restarts = static_cast<int>(random() % 1000);
  spec.limits.restart_window = milliseconds();
  spec.on_stuck = random() % 2 == 0 ? OnStuck::kEvict : OnStuck::kReport;
  spec.on_unsubmitted =
      random() % 2 == 0 ? OnUnsubmitted::kWarn : OnUnsubmitted::kIgnore;
  spec.seed = random();
  return spec;
}

TEST(SpecTextTest, WritesWhatItReadsBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const JobSpec spec = RandomSpec(seed);
    ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
    const absl::StatusOr<JobSpec> read = ParseJobSpec(ToYaml(spec), "f");
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << ToYaml(spec);
    ASSERT_EQ(*read, spec) << ToYaml(spec);
  }
}

TEST(SpecTextTest, WritesYamlAsPeopleDo) {
  const std::string yaml =
      ToYaml({.name = "digits", .mesh = {.axes = {{"data", 4}}}});
  EXPECT_THAT(yaml, StartsWith("name: digits\nmesh: data=4\nworkers: []\n"));
  EXPECT_THAT(yaml, HasSubstr("\nbuckets:\n  first_bytes_max: 1MiB\n"));
}

// Any bytes give a result without an exception or a crash. Damaged specs reach
// more code than noise.
TEST(SpecTextTest, SurvivesDamagedText) {
  const std::string good = ToYaml(RandomSpec(1));
  const std::string specials = "{}[]:,&*#?|-<>=!%@\"'\\\n\t ~\x01\xff";
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, random() % 5);
      } else {
        text.insert(at, 1, specials[random() % specials.size()]);
      }
    }
    refused += ParseJobSpec(text, "f").ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

TEST(SpecTextTest, SurvivesDeepNesting) {
  for (const char* opening : {"[", "{", "- ", "{a: ", "[{"}) {
    std::string text = "mesh: ";
    for (int depth = 0; depth < 20'000; ++depth) text += opening;
    EXPECT_FALSE(ParseJobSpec(text, "f").ok()) << opening;
  }
}

}  // namespace
}  // namespace lockstep::spec

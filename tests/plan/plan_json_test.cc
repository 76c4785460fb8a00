#include "plan/plan_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "plan/plan_json_fields.h"
#include "plan/summary.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/plans.h"
#include "tests/plan/schedule/shapes.h"
#include "tests/support/paths.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;

TEST(PlanJsonTest, EveryPlanReadsBackEqual) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = *Compile(RandomInput(seed));
    const absl::StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(*read, plan) << "seed " << seed;
  }
  for (const ScheduleShape& shape : AllShapes(4, 4, 2)) {
    PlanInput input = PipelineInput(shape, 2);
    input.pipeline.tag_base = 77;
    const Plan plan = *Compile(input);
    const absl::StatusOr<Plan> read = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(*read, plan) << testing::PrintToString(shape);
    ASSERT_EQ(DigestOf(*read), DigestOf(plan));
  }
}

// $ stands for the number of sums in a step summary.
constexpr char kTemplate[] = R"({
  "mesh": "pipe=2",
  "communicators": [{"name": "verdict", "ranks": [0, 1]},
                    {"name": "pipe@0>1", "ranks": [0, 1]}],
  "ranks": [
   {"lanes": [{"kind": "state", "name": "to rank 1", "transfers": [
      {"kind": "send", "communicator": 1, "shape": [8], "peer": 1}]},
    {"kind": "verdict", "name": "verdict", "transfers": [
      {"kind": "all-reduce", "communicator": 0, "dtype": "f64", "shape": [$],
       "group": 1, "before": [{"kind": "write-summary"}]},
      {"kind": "all-reduce", "communicator": 0, "dtype": "u64", "shape": [8],
       "op": "max", "group": 1, "then": [{"kind": "read-summary"}]}]}],
    "launch_order": [[0, 0], [1, 0], [1, 1]]},
   {"lanes": [{"kind": "state", "name": "from rank 0", "transfers": [
      {"kind": "recv", "communicator": 1, "shape": [8], "peer": 0}]},
    {"kind": "verdict", "name": "verdict", "transfers": [
      {"kind": "all-reduce", "communicator": 0, "dtype": "f64", "shape": [$],
       "group": 1, "before": [{"kind": "write-summary"}]},
      {"kind": "all-reduce", "communicator": 0, "dtype": "u64", "shape": [8],
       "op": "max", "group": 1, "then": [{"kind": "read-summary"}]}]}],
    "launch_order": [[0, 0], [1, 0], [1, 1]]}]
})";

std::string ByHand() {
  return absl::StrReplaceAll(kTemplate, {{"$", absl::StrCat(kSummarySums)}});
}

TEST(PlanJsonTest, APlanWrittenByHandIsVerified) {
  const absl::StatusOr<Plan> plan = PlanFromJson(ByHand());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
}

// Errors name their position in the document.
TEST(PlanJsonTest, FaultsAreNamedWithTheirPlace) {
  const struct {
    const char* old_text;
    const char* new_text;
    const char* message;
  } cases[] = {
      {"\"mesh\"", "\"mehs\"", "no field \"mehs\"; did you mean mesh?"},
      {"\"send\"", "\"sned\"",
       "ranks[0].lanes[0].transfers[0].kind: \"sned\" is not known here; did "
       "you mean send?"},
      {"\"peer\": 0", "\"peer\": \"0\"",
       "ranks[1].lanes[0].transfers[0].peer: must be a whole number"},
      {"\"peer\": 0", "\"peer\": 4294967296", "must be a whole number"},
      {"\"peer\": 0", "\"peer\": 0.5", "must be a whole number"},
      {"\"peer\": 0", "\"peer\": 0, \"tag\": -1", "0 to"},
      {"[[0, 0],", "[[0],", "ranks[0].launch_order[0]: must name a transfer"},
      {"[[0, 0],", "[0,", "ranks[0].launch_order[0]: must name a transfer"},
      {"\"pipe=2\"", "\"pipe=0\"", "mesh: "},
      {"\"pipe=2\"", "2", "mesh: must be axes"},
      {"[8]", "8", "shape: must be a list"},
      {"\"verdict\"", "1", "communicators[0].name: must be a text"},
      {"{\"name\": \"verdict\", \"ranks\": [0, 1]}", "[]",
       "communicators[0]: must be an object"},
      {"}", "", "no JSON"},
  };
  for (const auto& c : cases) {
    std::string text = ByHand();
    const size_t at = text.find(c.old_text);
    ASSERT_NE(at, std::string::npos) << c.old_text;
    text.replace(at, std::string(c.old_text).size(), c.new_text);
    const absl::Status status = PlanFromJson(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
  EXPECT_FALSE(PlanFromJson("").ok());
  EXPECT_FALSE(PlanFromJson("[]").ok());
  EXPECT_FALSE(PlanFromJson(std::string(100000, '[')).ok());
}

// --- Defaults, as docs/pipeline.md has them ---------------------------------

using Json = nlohmann::json;

template <typename T>
std::set<std::string> FieldsOf() {
  std::set<std::string> names;
  json::Fields<T>([&](const char* name, auto) { names.insert(name); });
  return names;
}

// The object in the row `of` of the table of defaults.
Json DocumentedDefaults(const std::string& of) {
  const std::string text = ReadSource("docs/pipeline.md");
  const size_t table = text.find("| of | what is left out |");
  const std::string row = absl::StrCat("\n| ", of, " | `");
  const size_t begin = text.find(row, std::min(table, text.size()));
  if (begin == std::string::npos) return Json();
  const size_t object = begin + row.size();
  return Json::parse(text.substr(object, text.find('`', object) - object),
                     nullptr, /*allow_exceptions=*/false);
}

TEST(PlanJsonTest, TheDocumentedDefaultsAreThoseOfFieldsThatAreLeftOut) {
  const Json one_of_each = Json::parse(R"({
    "communicators": [{}], "parameters": [{}], "buckets": [{"slots": [{}]}],
    "pipeline": {}, "halos": [{"fields": [{"dims": [{}]}]}],
    "state": [{"dims": [{}]}],
    "ranks": [{"lanes": [{"transfers": [{"before": [{}]}]}], "tasks": [{}],
               "halos": [{"own": [{}], "fills": [{}], "sends": [{}]}]}]
  })");
  const struct {
    const char* of;
    const char* place;
    std::set<std::string> fields;
  } records[] = {
      {"the plan", "", FieldsOf<Plan>()},
      {"a communicator", "/communicators/0", FieldsOf<CommunicatorSpec>()},
      {"a parameter", "/parameters/0", FieldsOf<Parameter>()},
      {"a bucket", "/buckets/0", FieldsOf<Bucket>()},
      {"a slot", "/buckets/0/slots/0", FieldsOf<Slot>()},
      {"the pipeline", "/pipeline", FieldsOf<PipelineSpec>()},
      {"a rank", "/ranks/0", FieldsOf<RankPlan>()},
      {"a lane", "/ranks/0/lanes/0", FieldsOf<Lane>()},
      {"a transfer", "/ranks/0/lanes/0/transfers/0", FieldsOf<Transfer>()},
      {"a local operation", "/ranks/0/lanes/0/transfers/0/before/0",
       FieldsOf<LocalOp>()},
      {"a task", "/ranks/0/tasks/0", FieldsOf<Task>()},
      {"a halo exchange", "/halos/0", FieldsOf<Halo>()},
      {"a field", "/halos/0/fields/0", FieldsOf<HaloField>()},
      {"a dimension", "/halos/0/fields/0/dims/0", FieldsOf<HaloExtent>()},
      {"a rank's halo", "/ranks/0/halos/0", FieldsOf<HaloRoutes>()},
      {"a box", "/ranks/0/halos/0/own/0", FieldsOf<HaloBox>()},
      {"a fill", "/ranks/0/halos/0/fills/0", FieldsOf<HaloFill>()},
      {"a message", "/ranks/0/halos/0/sends/0", FieldsOf<HaloMessage>()},
      {"a tensor of state", "/state/0", FieldsOf<StateTensor>()},
      {"its dimension", "/state/0/dims/0", FieldsOf<StateDim>()}};
  for (const auto& record : records) {
    SCOPED_TRACE(record.of);
    const Json defaults = DocumentedDefaults(record.of);
    ASSERT_TRUE(defaults.is_object());
    std::set<std::string> documented;
    for (const auto& [field, value] : defaults.items()) {
      documented.insert(field);
      Json without = one_of_each;
      without[Json::json_pointer(record.place)].erase(field);
      Json with = one_of_each;
      with[Json::json_pointer(record.place)][field] = value;
      const absl::StatusOr<Plan> left_out = PlanFromJson(without.dump());
      const absl::StatusOr<Plan> written = PlanFromJson(with.dump());
      ASSERT_TRUE(left_out.ok()) << left_out.status();
      ASSERT_TRUE(written.ok()) << written.status();
      EXPECT_EQ(*left_out, *written) << field;
    }
    // A missing wire means no cast, which the writer omits.
    if (record.of == std::string("a bucket")) documented.insert("wire");
    EXPECT_EQ(documented, record.fields);
  }
}

}  // namespace
}  // namespace lockstep::plan

// `lockstepctl plan` from a user's view: files, exit codes, output.

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/summary.h"
#include "tests/e2e/tool.h"
#include "tests/support/paths.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::ctl {
namespace {

using e2e::Outcome;
using e2e::RunTool;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kSpecs = SourcePath("examples/specs/");

// Regressions run cases of this test at the same time, so each process has its
// own files.
std::string TempFile(const std::string& name) {
  static const launch::ScratchFolder folder;
  EXPECT_EQ(folder.status(), absl::OkStatus());
  return folder.path() / name;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Outcome Plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"lockstepctl", "plan"});
  return RunTool(words);
}

// The plan of an example spec.
std::string Compiled(const std::string& spec) {
  const std::string file = TempFile(spec + ".pb");
  const Outcome compiled =
      Plan({"compile", "-f", kSpecs + spec + ".yaml", "-o", file});
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  return file;
}

TEST(PlanCommandTest, CompilesVerifiesAndExplainsTheExamples) {
  const struct {
    const char* spec;
    const char* bubble;
  } cases[] = {{"gpt-pipe4", "bubble: 27.3 %\n"},
               {"gpt-pipe4-interleaved", "bubble: 15.8 %\n"}};
  for (const auto& c : cases) {
    const std::string file = Compiled(c.spec);
    const Outcome verified = Plan({"verify", file});
    EXPECT_EQ(verified.code, 0);
    EXPECT_THAT(verified.output, StartsWith("verified "));
    const std::string svg = TempFile("timeline.svg");
    const Outcome explained = Plan({"explain", file, "--svg", svg});
    EXPECT_EQ(explained.code, 0);
    EXPECT_THAT(explained.output, HasSubstr(c.bubble));
    EXPECT_THAT(explained.output, HasSubstr("link rank 0 > rank 1"));
    EXPECT_THAT(explained.output, HasSubstr("peak"));
    EXPECT_THAT(ContentsOf(svg), StartsWith("<svg"));
  }
}

// --- Printed operations -----------------------------------------------------

// The operations of rank 0 in launch order: transfers as "all-reduce bf16", and
// their local operations, as "cast f32>bf16".
std::vector<std::string> OperationsIn(const Json& plan) {
  std::vector<std::string> operations;
  const auto add_side = [&](const Json& transfer, const char* side) {
    if (!transfer.contains(side)) return;
    for (const Json& op : transfer[side]) {
      std::string text = op["kind"];
      if (text.starts_with("cast") || text == "sum-pairs") {
        absl::StrAppend(&text, " ", op.value("from", "f32"), ">",
                        op.value("to", "f32"));
      }
      operations.push_back(text);
    }
  };
  const Json& rank = plan["ranks"][0];
  for (const Json& ref : rank["launch_order"]) {
    const Json& lane = rank["lanes"][ref[0].get<int>()];
    const Json& transfer = lane["transfers"][ref[1].get<int>()];
    add_side(transfer, "before");
    operations.push_back(absl::StrCat(transfer["kind"].get<std::string>(), " ",
                                      transfer.value("dtype", "f32")));
    add_side(transfer, "then");
  }
  return operations;
}

TEST(PlanCommandTest, ExportShowsEveryOperationThatRuns) {
  const std::vector<std::string> verdict = {"write-summary", "all-reduce f64",
                                            "all-reduce u64"};
  const auto with_verdict = [&](std::vector<std::string> operations,
                                std::vector<std::string> rest) {
    operations.insert(operations.end(), verdict.begin(), verdict.end());
    operations.insert(operations.end(), rest.begin(), rest.end());
    return operations;
  };
  const struct {
    const char* spec;
    std::vector<std::string> operations;
  } cases[] = {
      {"wire",
       with_verdict(
           {"cast-feedback f32>bf16", "write-flags", "all-reduce bf16",
            "cast bf16>f32", "read-flags", "norm",  // head, a sum
            "write-flags", "all-reduce bf16", "read-flags", "norm",  // norm
            "cast-feedback f32>bf16", "write-flags", "all-reduce bf16",
            "cast bf16>f32", "read-flags", "norm"},
           {"read-summary"})},
      {"sharded",
       with_verdict({"all-gather f32", "cast f32>f16", "reduce-scatter f16",
                     "cast f16>f32", "norm", "norm", "write-flags",
                     "all-reduce f16", "read-flags"},
                    {"read-summary"})},
      {"leaves", with_verdict({"all-to-all f32",
                               "sum-pairs f32>f32",
                               "all-gather f32",
                               "norm",
                               "write-flags",
                               "all-reduce f32",
                               "read-flags",  // head
                               "all-to-all f32",
                               "sum-pairs f32>f32",
                               "all-gather f32",
                               "norm",
                               "norm",
                               "write-flags",
                               "all-reduce f32",
                               "read-flags",
                               "all-to-all f32",
                               "sum-pairs f32>bf16",
                               "all-gather bf16",
                               "norm",
                               "norm",
                               "write-flags",
                               "all-reduce bf16",
                               "read-flags",  // attention
                               "all-to-all f32",
                               "sum-pairs f32>f32",
                               "all-gather f32",
                               "norm",
                               "norm",
                               "write-flags",
                               "all-reduce f32",
                               "read-flags"},
                              {"all-reduce f64", "read-summary"})},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.spec);
    const std::string file = Compiled(c.spec);
    EXPECT_EQ(Plan({"verify", file}).code, 0);
    const Outcome exported = Plan({"export", file});
    EXPECT_EQ(exported.code, 0);
    EXPECT_EQ(OperationsIn(Json::parse(exported.output)), c.operations);
  }
}

TEST(PlanCommandTest, ExplainListsOperationsOnTheSidesOfTheirTransfers) {
  const Outcome explained = Plan({"explain", Compiled("wire")});
  EXPECT_EQ(explained.code, 0);
  EXPECT_THAT(
      explained.output,
      HasSubstr("operations of ranks 0-3, with the elements of rank 0:\n"
                "  gradient: all-reduce of 641 bf16, sum, bucket 0\n"
                "    before: cast-feedback of elements 0 to 640 from f32 to "
                "bf16; write-flags of elements 640 to 641\n"
                "    behind: cast of elements 0 to 640 from bf16 to f32; "
                "read-flags of elements 640 to 641; norm of elements 0 to 176"
                "\n"));
  EXPECT_THAT(
      explained.output,
      HasSubstr(absl::StrCat("  one launch of 2 transfers:\n"
                             "    verdict: all-reduce of ",
                             plan::kSummarySums,
                             " f64, sum\n      before: write-summary\n"
                             "    verdict: all-reduce of ",
                             plan::kSummaryMaxima,
                             " u64, max\n      behind: read-summary\n")));
}

// --- Output in the documentation --------------------------------------------

const std::string kPipelineDoc = SourcePath("docs/pipeline.md");

TEST(PlanCommandTest, TheDocumentedDigestIsThatOfTheExample) {
  const std::string verified = Plan({"verify", Compiled("gpt-pipe4")}).output;
  EXPECT_THAT(
      ContentsOf(kPipelineDoc),
      HasSubstr("lockstepctl plan compile -f examples/specs/gpt-pipe4.yaml -o "
                "plan.pb\nlockstepctl plan verify plan.pb       # " +
                verified));
}

TEST(PlanCommandTest, TheDocumentedOperationsAreThoseOfTheExample) {
  const std::string doc = ContentsOf(kPipelineDoc);
  const size_t begin = doc.find("operations of ranks 0-3");
  ASSERT_NE(begin, std::string::npos);
  const std::string block = doc.substr(begin, doc.find("```", begin) - begin);
  const std::string explained = Plan({"explain", Compiled("wire")}).output;
  // The beginning and the end of the output.
  const std::vector<std::string> parts = absl::StrSplit(block, "  ...\n");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(explained, HasSubstr(parts[0]));
  EXPECT_THAT(explained, testing::EndsWith(parts[1]));
}

// On one host shm sums leaves in pairs by itself.
TEST(PlanCommandTest, LeavesAreOneOperationWhereTheTransportSumsInPairs) {
  std::string spec = ContentsOf(kSpecs + "leaves.yaml");
  const std::string nccl = "transport: nccl";
  spec.replace(spec.find(nccl), nccl.size(), "transport: shm");
  Write(TempFile("pairs.yaml"), spec);
  const std::string file = TempFile("pairs.pb");
  ASSERT_EQ(Plan({"compile", "-f", TempFile("pairs.yaml"), "-o", file}).code,
            0);
  const std::vector<std::string> operations =
      OperationsIn(Json::parse(Plan({"export", file}).output));
  EXPECT_EQ(
      std::count(operations.begin(), operations.end(), "all-reduce-pairs f32"),
      4);
  EXPECT_EQ(std::count(operations.begin(), operations.end(), "cast f32>bf16"),
            1);
  EXPECT_EQ(std::count(operations.begin(), operations.end(), "all-to-all f32"),
            0);
}

TEST(PlanCommandTest, TheSameSpecGivesTheSameBytes) {
  const std::string once = ContentsOf(Compiled("gpt-pipe4"));
  EXPECT_EQ(ContentsOf(Compiled("gpt-pipe4")), once);
}

TEST(PlanCommandTest, AnExportedPlanIsTheSamePlan) {
  const std::string file = Compiled("gpt-pipe4");
  const std::string json = TempFile("plan.json");
  EXPECT_EQ(Plan({"export", file, "-o", json}).code, 0);
  EXPECT_EQ(Plan({"verify", json}).output, Plan({"verify", file}).output);
  EXPECT_EQ(Plan({"export", file}).output, ContentsOf(json));
}

TEST(PlanCommandTest, APlanWithoutOneOfItsTransfersIsNotVerified) {
  const std::string json = TempFile("plan.json");
  EXPECT_EQ(Plan({"export", Compiled("gpt-pipe4"), "-o", json}).code, 0);
  const Json whole = Json::parse(ContentsOf(json));
  int removed = 0;
  for (size_t rank = 0; rank < whole["ranks"].size(); ++rank) {
    const Json& lanes = whole["ranks"][rank]["lanes"];
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      Json broken = whole;
      Json& transfers = broken["ranks"][rank]["lanes"][lane]["transfers"];
      transfers.erase(removed % transfers.size());
      Write(json, broken.dump());
      const Outcome outcome = Plan({"verify", json});
      EXPECT_EQ(outcome.code, 1);
      EXPECT_THAT(outcome.output, StartsWith("not verified\n"));
      EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat("rank ", rank)));
      ++removed;
    }
  }
  EXPECT_GT(removed, 12);
}

TEST(PlanCommandTest, WhoDeadlocksIsTold) {
  const std::string json = TempFile("plan.json");
  EXPECT_EQ(Plan({"export", Compiled("gpt-pipe4"), "-o", json}).code, 0);
  Json plan = Json::parse(ContentsOf(json));
  // Rank 1 needs the first gradient before it sends any activation.
  Json& order = plan["ranks"][1]["launch_order"];
  const auto& lanes = plan["ranks"][1]["lanes"];
  size_t from_rank_2 = 0;
  while (lanes[from_rank_2]["name"] != "from rank 2") ++from_rank_2;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != Json::array({from_rank_2, 0})) continue;
    order.erase(i);
    break;
  }
  order.insert(order.begin(), Json::array({from_rank_2, 0}));
  Write(json, plan.dump());
  const Outcome outcome = Plan({"verify", json});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("deadlocks"));
  EXPECT_THAT(outcome.output, HasSubstr("waits for its partner"));
  EXPECT_THAT(outcome.output, HasSubstr("is queued behind"));
}

TEST(PlanCommandTest, SimulatesStageTimesAndLinks) {
  const std::string file = Compiled("gpt-pipe4");
  const Outcome free = Plan({"simulate", file});
  EXPECT_EQ(free.code, 0);
  EXPECT_THAT(free.output, HasSubstr("step: 33.000 ms"));
  EXPECT_THAT(free.output, HasSubstr("bubble: 27.3 %"));
  EXPECT_THAT(free.output, HasSubstr("rank 3: computes 24.000 ms"));
  const Outcome slow = Plan({"simulate", file, "--forward", "1ms,1ms,3ms,1ms",
                             "--latency", "100us", "--bandwidth", "10GiB"});
  EXPECT_EQ(slow.code, 0);
  EXPECT_THAT(slow.output, Not(HasSubstr("step: 33.000 ms")));
  EXPECT_THAT(slow.output, HasSubstr("rank 2: computes 40.000 ms"));
  EXPECT_EQ(Plan({"simulate", file, "--forward", "1ms,2ms"}).code, 1);
  EXPECT_EQ(Plan({"simulate", file, "--forward", "fast"}).code, 1);
  EXPECT_EQ(Plan({"simulate", file, "--forward", "0"}).code, 1);
  EXPECT_EQ(Plan({"simulate", file, "--bandwidth", "0"}).code, 1);
}

TEST(PlanCommandTest, WhatIsNoPlanOrNoSpecIsRefused) {
  EXPECT_EQ(Plan({"verify", TempFile("none.pb")}).code, 1);
  Write(TempFile("noise.pb"), "noise");
  EXPECT_EQ(Plan({"verify", TempFile("noise.pb")}).code, 1);
  Write(TempFile("noise.json"), "{\"ranks\": 3}");
  const Outcome noise = Plan({"explain", TempFile("noise.json")});
  EXPECT_EQ(noise.code, 1);
  EXPECT_THAT(noise.output, HasSubstr("ranks: must be a list"));
  EXPECT_EQ(Plan({"frobnicate"}).code, 2);
  EXPECT_EQ(Plan({}).code, 2);
}

// --- A spec in place of a plan ----------------------------------------------

TEST(PlanCommandTest, ASpecGivenForAPlanIsToBeCompiledFirst) {
  const std::string yaml = kSpecs + "gpt-pipe4.yaml";
  const std::string json = TempFile("spec.json");
  Write(json, R"({"name": "digits", "mesh": {"data": 4}})");
  // It is invalid, but as a spec.
  const std::string wrong = TempFile("wrong_spec.yaml");
  Write(wrong, "name: digits\nmesh: data=4\nmicro_batches: 3\n");
  for (const std::string& file : {yaml, json, wrong}) {
    for (const char* command : {"verify", "explain", "simulate", "export"}) {
      const Outcome outcome = Plan({command, file});
      EXPECT_EQ(outcome.code, 1) << command;
      EXPECT_EQ(outcome.output,
                absl::StrCat("lockstepctl: ", file,
                             ": this is a job spec; compile it first: "
                             "lockstepctl plan compile -f ",
                             file, " -o PLAN\n"))
          << command;
    }
  }
  // Neither a spec nor a plan: the error is the plan's.
  const std::string neither = TempFile("neither.json");
  Write(neither, R"({"mesh": "data=4", "ranks": 3})");
  EXPECT_THAT(Plan({"explain", neither}).output,
              HasSubstr("ranks: must be a list"));
}

TEST(PlanCommandTest, APlanGivenForASpecIsNamed) {
  const std::string file = Compiled("gpt-pipe4");
  const std::string json = TempFile("plan_as_spec.json");
  EXPECT_EQ(Plan({"export", file, "-o", json}).code, 0);
  for (const std::string& plan : {file, json}) {
    const Outcome outcome =
        Plan({"compile", "-f", plan, "-o", TempFile("again.pb")});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.output,
              absl::StrCat("lockstepctl: ", plan,
                           ": this is a compiled plan, not a job spec\n"));
  }
}

// --- Limits -----------------------------------------------------------------

// As the coordinator does when workers register.
TEST(PlanCommandTest, TheParametersOfARankAreLimited) {
  const std::string spec = TempFile("limited.yaml");
  const std::string head =
      "name: x\nmesh: data=1,pipe=2\n"
      "pipeline: {schedule: 1f1b, micro_batches: 2, activations: \"f32[2]\"}\n";
  const std::string parameters =
      "parameters:\n- {name: a, shape: [2], stage: 0}\n"
      "- {name: b, shape: [2], stage: 1}\n- {name: c, shape: [2]}\n"
      "- {name: d, shape: [2], stage: 1}\n";
  Write(spec, head + "limits: {parameters_max: 2}\n" + parameters);
  const Outcome refused =
      Plan({"compile", "-f", spec, "-o", TempFile("limited.pb")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.output,
            absl::StrCat("lockstepctl: ", spec,
                         ":9: parameters: d is one more than rank 1 may "
                         "register; limits.parameters_max is 2\n"));
  Write(spec, head + "limits: {parameters_max: 3}\n" + parameters);
  EXPECT_EQ(Plan({"compile", "-f", spec, "-o", TempFile("limited.pb")}).code,
            0);
}

TEST(PlanCommandTest, ASpecIsRefusedWithLineAndField) {
  const std::string head = "name: x\nmesh: data=1,pipe=4\n";
  const struct {
    const char* rest;
    const char* why;
  } cases[] = {
      {"pipeline: {schedule: 1f2b}\n", ":3: pipeline.schedule: "},
      {"pipeline: {shedule: 1f1b}\n", "did you mean pipeline.schedule?"},
      {"pipeline: {schedule: 1f1b}\n", "3 boundaries"},
      {"pipeline: {schedule: 1f1b, micro_batches: 0}\n", ":3: pipeline."},
      {"pipeline: {schedule: zb-h1, micro_batches: 3, activations: "
       "\"f32[2]\"}\n",
       "as many micro-batches as stages"},
      {"pipeline: {schedule: 1f1b, axis: depth}\n", "no axis of mesh"},
      {"pipeline: {schedule: 1f1b, activations: \"f32(2)\"}\n",
       "is not a type"},
      {"parameters: 3\n", ":3: parameters: is no list"},
      {"parameters:\n- {name: w, shap: [2]}\n",
       ":4: parameters: shap is no "
       "field of a parameter; did you "
       "mean shape?"},
      {"parameters:\n- {name: w}\n", ":4: parameters: shape is missing"},
      {"parameters:\n- {name: w, shape: [x]}\n", "no whole number"},
      {"parameters:\n- {name: w, shape: [2], dtype: f31}\n", "dtype is no"},
      {"parameters:\n- {name: w, shape: [2], stage: 1}\n", "no pipeline"},
      {"parameters:\n- {name: w, shape: [2], shape: [2]}\n", "there twice"},
      {"pipeline: {schedule: 1f1b, activations: \"f32[2]\"}\n"
       "parameters:\n- {name: w, shape: [2], stage: 4}\n",
       ":5: parameters: w is of stage 4, but there are 4"},
  };
  for (const auto& c : cases) {
    Write(TempFile("bad.yaml"), head + c.rest);
    const Outcome outcome =
        Plan({"compile", "-f", TempFile("bad.yaml"), "-o", TempFile("bad.pb")});
    EXPECT_EQ(outcome.code, 1) << c.rest;
    EXPECT_THAT(outcome.output, HasSubstr(c.why)) << c.rest;
  }
}

TEST(PlanCommandTest, WhatAFileHoldsDoesNotReachTheTerminal) {
  Write(TempFile("escape.yaml"), "name: \"\\\x1b\"\nmesh: data=2\n");
  const Outcome outcome =
      Plan({"compile", "-f", TempFile("escape.yaml"), "-o", TempFile("no.pb")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("\\x1b"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b")));
}

TEST(PlanCommandTest, TimesThatCannotBeAddedUpAreRefused) {
  const std::string file = Compiled("gpt-pipe4");
  const struct {
    std::vector<std::string> option;
    const char* why;
  } cases[] = {{{"--forward", "100000h"}, "is longer than 1h"},
               {{"--latency", "2h"}, "is longer than 1h"},
               {{"--bandwidth", "1"}, "is less than 1MiB"}};
  for (const auto& c : cases) {
    const Outcome outcome = Plan({"simulate", file, c.option[0], c.option[1]});
    EXPECT_EQ(outcome.code, 1) << c.option[0];
    EXPECT_THAT(outcome.output, HasSubstr(c.why)) << c.option[0];
  }
}

TEST(PlanCommandTest, WhatIsNoFileIsNamed) {
  const struct {
    std::vector<std::string> words;
    const char* why;
  } cases[] = {
      {{"plan", "compile", "-f", "/tmp", "-o", "/dev/null"}, "/tmp is a dir"},
      {{"plan", "verify", "/tmp"}, "/tmp is a dir"},
      {{"plan", "explain", "/tmp"}, "/tmp is a dir"},
      {{"plan", "simulate", "/tmp"}, "/tmp is a dir"},
      {{"plan", "export", "/tmp"}, "/tmp is a dir"},
      {{"create", "-f", "/tmp"}, "/tmp is a dir"},
      {{"create", "-f", "/dev/zero"}, "/dev/zero is larger than"},
      {{"create", "-f", "/no/spec"}, "No such file"},
      {{"plan", "compile", "-f", kSpecs + "gpt-pipe4.yaml", "-o", "/dev/full"},
       "No space left"},
      {{"plan", "compile", "-f", kSpecs + "gpt-pipe4.yaml", "-o", "/tmp"},
       "Is a directory"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> words = c.words;
    words.insert(words.begin(), "lockstepctl");
    const Outcome outcome = RunTool(words);
    EXPECT_EQ(outcome.code, 1) << absl::StrJoin(words, " ");
    EXPECT_THAT(outcome.output, HasSubstr(c.why)) << absl::StrJoin(words, " ");
  }
}

}  // namespace
}  // namespace lockstep::ctl

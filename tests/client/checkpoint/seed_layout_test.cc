#include "client/checkpoint/seed_layout.h"

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/checkpoint_reader.h"
#include "client/checkpoint/consolidate.h"
#include "client/checkpoint/load.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/seed_sharding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Rank r's elements of a tensor are r * 100, r * 100 + 1, ...
using Shapes = std::map<std::string, std::vector<int64_t>>;

constexpr char kState[] = R"({"version":2,"step":7,"epoch":1,)"
                          R"("learning_rate":0.5,"metadata":{"a":"b"}})";

std::vector<float> Values(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(rank * 100 + static_cast<int>(i));
  }
  return values;
}

class SeedLayoutTest : public testing::Test {
 protected:
  SeedLayoutTest() { EXPECT_TRUE(files_.MakeDirectory("/s").ok()); }

  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(
        files_.Open(path, OpenMode::kTruncate).value()->Append(text).ok())
        << path;
  }

  void PutTensors(const std::string& path, int rank, const Shapes& shapes) {
    std::vector<std::vector<float>> contents;
    contents.reserve(shapes.size());
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, shape] : shapes) {
      size_t count = 1;
      for (int64_t extent : shape) count *= static_cast<size_t>(extent);
      contents.push_back(Values(rank, count));
      tensors.push_back(
          {name, {DType::kF32, shape}, FromMemory(contents.back().data())});
    }
    const auto written = WriteSafetensors(&files_, path, std::move(tensors));
    ASSERT_TRUE(written.ok()) << written.status();
  }

  void PutRank(int rank, const Shapes& model, const Shapes& optimizer = {}) {
    const std::string folder = absl::StrCat("/s/rank_", rank);
    ASSERT_TRUE(files_.MakeDirectory(folder).ok());
    PutTensors(folder + "/model.safetensors", rank, model);
    if (!optimizer.empty()) {
      PutTensors(folder + "/optimizer.safetensors", rank, optimizer);
    }
    Put(folder + "/training_state.json", kState);
  }

  void PutSharding(int ranks, const std::string& strategy,
                   const std::string& split_dims = "{}") {
    Put("/s/sharding_meta.json",
        absl::StrCat("{\"version\":2,\"world_size\":", ranks, ",\"strategy\":",
                     strategy, ",\"split_dims\":", split_dims, "}"));
  }

  ForeignCheckpoint Layout() {
    auto read = ReadSeedLayout(&files_, "/s");
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(ForeignCheckpoint{});
  }
  std::string Refusal() {
    const auto read = ReadSeedLayout(&files_, "/s");
    EXPECT_FALSE(read.ok());
    return std::string(read.status().message());
  }

  // Shape and values of each tensor.
  using Contents =
      std::map<std::string,
               std::pair<std::vector<int64_t>, std::vector<float>>>;
  Contents Read() {
    const ForeignCheckpoint layout = Layout();
    auto reader = CheckpointReader::Open(
        &files_, layout.folder, layout.manifest, {.check = HashCheck::kOff});
    EXPECT_TRUE(reader.ok()) << reader.status();
    Contents contents;
    for (const ManifestTensor& tensor : layout.manifest.tensors) {
      std::vector<float> values(TensorBytes(tensor.type).value() / 4);
      EXPECT_EQ((*reader)->Read(tensor.name,
                                {std::vector<int64_t>(tensor.type.shape.size()),
                                 tensor.type.shape},
                                values.data()),
                absl::OkStatus());
      contents[tensor.name] = {tensor.type.shape, values};
    }
    return contents;
  }

  MemoryFileSystem files_;
};

TEST_F(SeedLayoutTest, OneFolderWithoutRanks) {
  PutTensors("/s/model.safetensors", 0, {{"w", {2, 2}}});
  PutTensors("/s/optimizer.safetensors", 1, {{"w.m", {2, 2}}});
  Put("/s/training_state.json", kState);
  EXPECT_THAT(Read(),
              ElementsAre(Pair("w", Pair(ElementsAre(2, 2), Values(0, 4))),
                          Pair("w.m", Pair(ElementsAre(2, 2), Values(1, 4)))));
  const Manifest manifest = Layout().manifest;
  EXPECT_EQ(manifest.step, 7);
  EXPECT_EQ(manifest.training, (TrainingState{.step = 7,
                                              .epoch = 1,
                                              .learning_rate = 0.5,
                                              .metadata = {{"a", "b"}}}));
}

TEST_F(SeedLayoutTest, ReplicatedIsReadFromRank0) {
  PutSharding(2, "\"Replicated\"");
  for (int rank : {0, 1}) PutRank(rank, {{"w", {3}}}, {{"w.m", {3}}});
  EXPECT_THAT(Read(),
              ElementsAre(Pair("w", Pair(ElementsAre(3), Values(0, 3))),
                          Pair("w.m", Pair(ElementsAre(3), Values(0, 3)))));
  EXPECT_EQ(Layout().manifest.files.size(), 2u);
}

TEST_F(SeedLayoutTest, ZeroIsTheUnionWhereTheHighestRankCounts) {
  PutSharding(3, R"({"ZeroPartitioned":{"stage":2}})");
  PutRank(0, {{"a", {2}}, {"b", {1}}}, {{"a.m", {2}}});
  PutRank(1, {{"a", {2}}});
  PutRank(2, {{"c", {}}}, {{"c.m", {}}});
  EXPECT_THAT(Read(),
              ElementsAre(Pair("a", Pair(ElementsAre(2), Values(1, 2))),
                          Pair("a.m", Pair(ElementsAre(2), Values(0, 2))),
                          Pair("b", Pair(ElementsAre(1), Values(0, 1))),
                          Pair("c", Pair(ElementsAre(), Values(2, 1))),
                          Pair("c.m", Pair(ElementsAre(), Values(2, 1)))));
}

// 2 x [2,4] are [4,4], and along dimension 1 [2,1] and [2,2] are [2,3]. What
// the optimizer has of a parameter is divided as the parameter is; boostr loses
// it.
TEST_F(SeedLayoutTest, TensorParallelIsConcatenatedWithItsOptimizerState) {
  PutSharding(2, "\"TensorParallel\"", R"({"v":1,"w":0})");
  for (int rank : {0, 1}) {
    PutRank(rank, {{"norm", {2}}, {"v", {2, 1 + rank}}, {"w", {2, 4}}},
            {{"norm.m", {2}},
             {"v.m", {2, 1 + rank}},
             {"w.m", {2, 4}},
             {"w.step", {}}});
  }
  std::vector<float> w = Values(0, 8);
  const std::vector<float> more = Values(1, 8);
  w.insert(w.end(), more.begin(), more.end());
  const std::vector<float> v = {0, 100, 101, 1, 102, 103};
  EXPECT_THAT(Read(),
              ElementsAre(Pair("norm", Pair(ElementsAre(2), Values(0, 2))),
                          Pair("norm.m", Pair(ElementsAre(2), Values(0, 2))),
                          Pair("v", Pair(ElementsAre(2, 3), v)),
                          Pair("v.m", Pair(ElementsAre(2, 3), v)),
                          Pair("w", Pair(ElementsAre(4, 4), w)),
                          Pair("w.m", Pair(ElementsAre(4, 4), w)),
                          Pair("w.step", Pair(ElementsAre(), Values(0, 1)))));
  EXPECT_EQ(Layout().manifest.mesh, (Mesh{{{"model", 2}}}));
}

TEST_F(SeedLayoutTest, IsLoadedAndConsolidatedAsACheckpoint) {
  PutSharding(2, "\"TensorParallel\"", R"({"w":0})");
  for (int rank : {0, 1}) PutRank(rank, {{"w", {1, 2}}, {"x", {1}}});
  const ForeignCheckpoint layout = Layout();
  std::vector<float> row(2), x(1);
  const std::vector<WantedTensor> wanted = {
      {"w", {DType::kF32, {2, 2}}, {{{1, 0}, {1, 2}}}, row.data()},
      {"x", {DType::kF32, {1}}, {{{0}, {1}}}, x.data()}};
  const auto load = [&](HashCheck check) {
    return LoadTensors(&files_, layout.folder, layout.manifest, wanted,
                       {.check = check});
  };
  EXPECT_EQ(load(HashCheck::kOff), absl::OkStatus());
  EXPECT_THAT(row, ElementsAre(100, 101));
  EXPECT_THAT(std::string(load(HashCheck::kFull).message()),
              HasSubstr("/s has no hashes"));
  const auto written = Consolidate(&files_, layout.folder, layout.manifest,
                                   "/all", {.check = HashCheck::kOff});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->header.tensors.size(), 2u);
  EXPECT_FALSE(FormatManifest(layout.manifest).ok());
}

TEST_F(SeedLayoutTest, NamesWhatIsMissing) {
  EXPECT_THAT(Refusal(), HasSubstr("/s has no model.safetensors and no "
                                   "sharding_meta.json"));
  PutRank(0, {{"w", {1}}});
  EXPECT_THAT(Refusal(), HasSubstr("/s has rank_0, but no sharding_meta.json"));
  PutSharding(4, "\"Replicated\"");
  PutRank(2, {{"w", {1}}});
  EXPECT_THAT(Refusal(), HasSubstr("of 4 ranks; it has no rank_1, rank_3"));
  PutSharding(1, "\"Replicated\"");
  EXPECT_EQ(Layout().manifest.tensors.size(), 1u);
  ASSERT_TRUE(files_.Remove("/s/rank_0/training_state.json").ok());
  EXPECT_THAT(Refusal(), HasSubstr("/s/rank_0/training_state.json"));
}

TEST_F(SeedLayoutTest, RefusesTensorsThatDoNotFitAndNamesFileAndTensor) {
  struct Case {
    std::string strategy, split_dims;
    Shapes first, second;
    std::vector<std::string> texts;
  };
  const std::string tensor_parallel = "\"TensorParallel\"";
  const std::vector<Case> cases = {
      {"\"Replicated\"",
       "{}",
       {{"w", {1}}, {"x", {1}}},
       {{"w", {1}}},
       {"/s/rank_0/model.safetensors", "\"x\"", "rank 1"}},
      {"\"Replicated\"",
       "{}",
       {{"w", {1}}},
       {{"w", {2}}},
       {"/s/rank_1/model.safetensors", "\"w\"", "f32[2]", "f32[1]"}},
      {R"({"ZeroPartitioned":{"stage":3}})",
       "{}",
       {{"w", {1}}},
       {{"w", {2}}},
       {"/s/rank_1/model.safetensors", "\"w\"", "f32[2]", "f32[1]"}},
      // boostr drops such a parameter.
      {tensor_parallel,
       R"({"w":0})",
       {{"w", {1}}},
       {{"x", {1}}},
       {"/s/rank_0/model.safetensors", "\"w\"", "rank 1"}},
      {tensor_parallel,
       R"({"w":0})",
       {{"w", {1}}},
       {{"w", {1}}, {"x", {1}}},
       {"/s/rank_1/model.safetensors", "\"x\"", "rank 0"}},
      {tensor_parallel,
       R"({"w":0})",
       {{"w", {2, 4}}},
       {{"w", {2, 3}}},
       {"/s/rank_1/model.safetensors", "\"w\"", "f32[2,3]", "dimension 0"}},
      {tensor_parallel,
       R"({"w":0})",
       {{"w", {2, 4}}},
       {{"w", {2}}},
       {"/s/rank_1/model.safetensors", "\"w\"", "f32[2]"}},
      {tensor_parallel,
       R"({"w":1})",
       {{"w", {2}}},
       {{"w", {2}}},
       {"/s/rank_0/model.safetensors", "\"w\"", "dimension 1"}},
      {tensor_parallel,
       R"({"v":0})",
       {{"w", {2}}},
       {{"w", {2}}},
       {"/s/sharding_meta.json", "\"v\""}},
  };
  for (const Case& c : cases) {
    files_.Crash();  // nothing here was durable
    ASSERT_TRUE(files_.MakeDirectory("/s").ok());
    PutSharding(2, c.strategy, c.split_dims);
    PutRank(0, c.first);
    PutRank(1, c.second);
    const std::string refusal = Refusal();
    for (const std::string& text : c.texts) {
      EXPECT_THAT(refusal, HasSubstr(text));
    }
  }
}

TEST_F(SeedLayoutTest, RefusesTwoTensorsOfOneNameAndRanksOfDifferentSteps) {
  PutSharding(2, "\"Replicated\"");
  PutRank(0, {{"w", {1}}, {"w.m", {1}}}, {{"w.m", {1}}});
  PutRank(1, {{"w", {1}}, {"w.m", {1}}});
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("/s/rank_0/optimizer.safetensors"),
                               HasSubstr("\"w.m\""),
                               HasSubstr("/s/rank_0/model.safetensors")));
  ASSERT_TRUE(files_.Remove("/s/rank_0/optimizer.safetensors").ok());
  EXPECT_EQ(Layout().manifest.tensors.size(), 2u);
  Put("/s/rank_1/training_state.json",
      R"({"step":6,"epoch":1,"learning_rate":0.5,"metadata":{}})");
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr("/s/rank_1/training_state.json has step 6"),
                    HasSubstr("rank 0 has step 7")));
}

TEST(SeedShardingTest, ParsesBothSchemasAndVersions) {
  const SeedSharding expected{.ranks = 2,
                              .strategy = SeedStrategy::kTensorParallel,
                              .split_dims = {{"w", 1}}};
  for (const std::string version : {"\"version\":2,", "\"version\":1,", ""}) {
    const std::string begin = absl::StrCat("{", version, "\"world_size\":2,");
    const std::string own =
        R"("strategy":"TensorParallel","split_dims":{"w":1}})";
    const auto common = ParseSeedSharding(begin + own);
    ASSERT_TRUE(common.ok()) << common.status();
    EXPECT_EQ(*common, expected);
    const auto shards = ParseSeedSharding(
        begin + R"("shards":[{"rank":1,"strategy":"Replicated"},)" +
        R"({"world_size":2,"rank":0,"owned_params":["w"],)" + own + "]}");
    ASSERT_TRUE(shards.ok()) << shards.status();
    EXPECT_EQ(*shards, expected);
  }
}

TEST(SeedShardingTest, RefusesAndNamesTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "no object"},
      {"{", "JSON"},
      {R"({"version":3})", "version 3"},
      {R"({"version":0})", "version"},
      {R"({"strategy":"Replicated"})", "world_size"},
      {R"({"world_size":0,"strategy":"Replicated"})", "world_size"},
      {R"({"world_size":2000000,"strategy":"Replicated"})", "world_size"},
      {R"({"world_size":2})", "strategy: is missing"},
      {R"({"world_size":2,"strategy":"Pipeline"})", "Pipeline"},
      {R"({"world_size":2,"strategy":"TensorParallel","split_dims":{}})",
       "split_dims"},
      {R"({"world_size":2,"strategy":"TensorParallel"})", "split_dims"},
      {R"({"world_size":2,"strategy":"TensorParallel","split_dims":{"w":-1}})",
       "split_dims.w"},
      {R"({"world_size":2,"shards":[]})", "shards: has no entry of rank 0"},
      {R"({"world_size":2,"shards":[{"rank":0,"world_size":3}]})", "3"},
      {R"({"world_size":2,"shards":[{"rank":0},{"rank":0}]})", "twice"},
      {R"({"world_size":2,"strategy":"Replicated","shards":[]})", "beside"},
  };
  for (const auto& [text, fault] : cases) {
    const absl::Status refused = ParseSeedSharding(text).status();
    EXPECT_FALSE(refused.ok()) << text;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(fault)) << text;
  }
  EXPECT_THAT(
      std::string(ParseSeedTraining(R"({"step":1})").status().message()),
      HasSubstr("epoch"));
  EXPECT_TRUE(
      absl::IsUnimplemented(ParseSeedTraining(R"({"version":3})").status()));
}

}  // namespace
}  // namespace lockstep::checkpoint

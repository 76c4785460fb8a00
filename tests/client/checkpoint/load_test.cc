#include "client/checkpoint/load.h"

#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LoadTest : public testing::Test {
 protected:
  LoadTest() { manifest_ = WriteFolder(&memory_, "/c", tensors_, 2); }

  static CutTensor Halves(const std::string& name) {
    return {name, {DType::kF32, {4, 6}}, {{{0, 0}, {4, 2}}, {{0, 2}, {4, 4}}}};
  }

  // Wants the rows from 1 to 3 of a tensor, in memory of '?'.
  void Want(const std::string& name, TensorType type = {DType::kF32, {4, 6}}) {
    memory_of_.emplace_back(2 * 6 * 4, '?');
    wanted_.push_back({name, std::move(type), TensorBox{{1, 0}, {2, 6}},
                       memory_of_.back().data()});
  }
  void WantAll() {
    for (const CutTensor& tensor : tensors_) Want(tensor.name);
  }
  absl::Status Load(const LoadOptions& options = {}) {
    return LoadTensors(&files_, "/c", manifest_, wanted_, options);
  }
  // The memory of wanted tensor `i`.
  std::string MemoryOf(size_t i) {
    return std::string(static_cast<const char*>(wanted_[i].to), 48);
  }
  std::string BytesOf(size_t tensor) {
    return tensors_[tensor].At({{1, 0}, {2, 6}});
  }
  // An error before a byte is read.
  void ExpectRefused(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(files_.bytes_read(), 0u);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      EXPECT_EQ(MemoryOf(i), std::string(48, '?'));
    }
  }

  const std::vector<CutTensor> tensors_ = {Halves("encoder.weight"),
                                           Halves("decoder.weights"),
                                           Halves("bias"), Halves("moments")};
  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
  Manifest manifest_;
  std::list<std::string> memory_of_;
  std::vector<WantedTensor> wanted_;
};

TEST_F(LoadTest, EachTensorGetsItsBox) {
  WantAll();
  for (const HashCheck check :
       {HashCheck::kFull, HashCheck::kSampled, HashCheck::kOff}) {
    const absl::Status status = Load({.check = check});
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      EXPECT_EQ(MemoryOf(i), BytesOf(i));
    }
    wanted_.clear();
    WantAll();
  }
}

TEST_F(LoadTest, ATensorWithoutABoxIsComparedOnly) {
  WantAll();
  wanted_[1].box.reset();
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(MemoryOf(0), BytesOf(0));
  EXPECT_EQ(MemoryOf(1), std::string(48, '?'));
  wanted_[1].type.dtype = DType::kI32;
  EXPECT_EQ(Load().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LoadTest, AllThatDoesNotFitIsInOneError) {
  Want("encoder.weigth");
  Want("bias", {DType::kF32, {6, 4}});
  Want("moments", {DType::kBF16, {4, 6}});
  Want("new");
  const absl::Status refused = Load();
  ExpectRefused(refused);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("/c "),
            HasSubstr("2 missing in the checkpoint: tensor \"encoder.weigth\" "
                      "f32[4,6] (nearest: encoder.weight), tensor \"new\" "
                      "f32[4,6]; "),
            HasSubstr("2 unexpected: tensor \"decoder.weights\" f32[4,6]"),
            HasSubstr("tensor \"encoder.weight\" f32[4,6] (nearest: "
                      "encoder.weigth); "),
            HasSubstr("1 of another shape: tensor \"bias\" is f32[4,6], "
                      "f32[6,4] is wanted; "),
            HasSubstr("1 of another dtype: tensor \"moments\" is f32[4,6], "
                      "bf16[4,6] is wanted")));
}

TEST_F(LoadTest, ManyNamesThatDoNotFitAreAllListed) {
  std::vector<WantedTensor> wanted;
  for (int i = 0; i < 30'000; ++i) {
    wanted.push_back({absl::StrCat("layer", i), {DType::kF32, {1}}});
  }
  const absl::Status refused = LoadTensors(&files_, "/c", manifest_, wanted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("30000 missing"), HasSubstr("\"layer0\""),
                    HasSubstr("\"layer29999\""), HasSubstr("4 unexpected")));
}

TEST_F(LoadTest, RenamedTensorsAreLoadedUnderTheirNewNames) {
  WantAll();
  // Two tensors change places.
  wanted_[0].name = "bias";
  wanted_[2].name = "encoder.weight";
  wanted_[3].name = "optimizer.moments";
  const LoadOptions options = {.renamed = {{"bias", "encoder.weight"},
                                           {"encoder.weight", "bias"},
                                           {"moments", "optimizer.moments"}}};
  const absl::Status status = Load(options);
  ASSERT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EXPECT_EQ(MemoryOf(i), BytesOf(i)) << wanted_[i].name;
  }
}

TEST_F(LoadTest, PatternsRenameAllThatFitsThemAndFullNamesGoBefore) {
  Want("net.encoder.w");
  Want("d");
  Want("b");
  Want("o.mo");
  const absl::Status status = Load({.renamed = {{"*.weight*", "net.*.w"},
                                                {"decoder.weights", "d"},
                                                {"bias*", "b*"},
                                                {"*ments", "o.*"}}});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"*.weight*\" to \"net.*.w\": both have one '*'"));
  const absl::Status loaded = Load({.renamed = {{"*.weight", "net.*.w"},
                                                {"decoder.weights", "d"},
                                                {"*s", "wrong.*"},
                                                {"bias", "b"},
                                                {"*ments", "o.*"}}});
  EXPECT_THAT(std::string(loaded.message()),
              HasSubstr("1 renamed wrongly: tensor \"moments\" fits \"*ments\" "
                        "and \"*s\""));
  const absl::Status all = Load({.renamed = {{"*.weight", "net.*.w"},
                                             {"decoder.weights", "d"},
                                             {"bias*", "b*"},
                                             {"*ments", "o.*"}}});
  ASSERT_TRUE(all.ok()) << all;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EXPECT_EQ(MemoryOf(i), BytesOf(i)) << wanted_[i].name;
  }
}

TEST_F(LoadTest, PatternsThatFitNothingAndNamesThatBecomeOneAreListed) {
  WantAll();
  const absl::Status refused =
      Load({.renamed = {{"model.*", "net.*"},
                        {"*.weightsweights", "*"},
                        {"*coder.weight", "*coder.weights"},
                        {"encoder.*", "decoder.*"},
                        {"bia*", "moment*"}}});
  ExpectRefused(refused);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("\"model.*\" fits no name in the checkpoint"),
            HasSubstr("\"*.weightsweights\" fits no name"),
            HasSubstr("tensor \"encoder.weight\" fits \"*coder.weight\" and "
                      "\"encoder.*\""),
            HasSubstr("tensor \"bias\" and tensor \"moments\" are both")));
}

TEST_F(LoadTest, NamesThatCannotBeRenamedAreListed) {
  WantAll();
  const absl::Status refused =
      Load({.renamed = {{"none", "x"}, {"bias", "moments"}}});
  ExpectRefused(refused);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("2 renamed wrongly"),
                    HasSubstr("tensor \"none\" is not in the checkpoint"),
                    HasSubstr("tensor \"bias\" and tensor \"moments\" are both "
                              "\"moments\""),
                    HasSubstr("1 missing")));
}

TEST_F(LoadTest, OnlyTheNamedTensorsAreLoaded) {
  WantAll();
  Want("not.saved");
  wanted_[2].type.shape = {1};  // "bias", which is left out
  const absl::Status status = Load({.only = {"*.weight*", "mo*s"}});
  ASSERT_TRUE(status.ok()) << status;
  for (const size_t i : {0, 1, 3}) EXPECT_EQ(MemoryOf(i), BytesOf(i)) << i;
  for (const size_t i : {2, 4}) EXPECT_EQ(MemoryOf(i), std::string(48, '?'));
}

TEST_F(LoadTest, ExceptedTensorsKeepTheirValues) {
  WantAll();
  Want("encoder.momentum");
  wanted_[3].type.shape = {1};
  const absl::Status status =
      Load({.only = {"*coder.*", "moments"}, .except = {"*mo*"}});
  ASSERT_TRUE(status.ok()) << status;
  for (const size_t i : {0, 1}) EXPECT_EQ(MemoryOf(i), BytesOf(i)) << i;
  for (const size_t i : {2, 3, 4}) EXPECT_EQ(MemoryOf(i), std::string(48, '?'));
  ASSERT_TRUE(Load({.except = {"*mo*"}}).ok());
  EXPECT_EQ(MemoryOf(2), BytesOf(2));
  const absl::Status unused = Load({.except = {"*mo*", "*.bias"}});
  EXPECT_THAT(std::string(unused.message()),
              HasSubstr("1 not selected: \"*.bias\" of `except` fits no name"));
}

// As the ranks of a job list them: whole, and then their parts.
TEST_F(LoadTest, WhatDoesNotFitIsListedOnceHoweverOftenItIsWanted) {
  WantAll();
  wanted_.pop_back();
  for (int i = 0; i < 2; ++i) {
    for (const std::string name : {"new", "bias", "decoder.weights"}) {
      Want(name, {DType::kBF16, {6, 4}});
    }
  }
  wanted_.erase(wanted_.begin() + 1, wanted_.begin() + 3);
  const std::string text(Load().message());
  for (const std::string part :
       {"1 missing in the checkpoint: tensor \"new\" bf16[6,4]",
        "1 unexpected: tensor \"moments\" f32[4,6]", "2 of another shape: ",
        "tensor \"bias\" is f32[4,6], bf16[6,4] is wanted",
        "tensor \"decoder.weights\" is f32[4,6], bf16[6,4] is wanted"}) {
    EXPECT_EQ(text.find(part), text.rfind(part)) << text;
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("another dtype")));
}

TEST_F(LoadTest, ASelectionIsComparedStrictly) {
  Want("encoder.weight");
  Want("encoder.bias");
  const absl::Status refused =
      Load({.only = {"*coder.*", "decoder", "*weights*x*"}});
  ExpectRefused(refused);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("1 missing in the checkpoint: tensor \"encoder.bias\""),
            HasSubstr("1 unexpected: tensor \"decoder.weights\""),
            HasSubstr("2 not selected: \"decoder\" of `only` fits no name, "
                      "\"*weights*x*\""),
            Not(HasSubstr("moments"))));
}

TEST_F(LoadTest, AStarStandsForAnyText) {
  const std::vector<std::pair<std::string, bool>> patterns = {
      {"*", true},      {"bias", true}, {"b*s", true},    {"*bias*", true},
      {"**b**s", true}, {"*a*", true},  {"b*ia*s", true}, {"bia", false},
      {"ias", false},   {"b*b", false}, {"bias?", false}, {"biasbias", false},
      {"*s*a", false},  {"", false},    {"b*x*s", false}};
  for (const auto& [pattern, fits] : patterns) {
    wanted_.clear();
    Want("bias");
    // The other tensors are unexpected if the pattern fits them.
    const absl::Status status = Load({.only = {pattern}});
    const std::string message(status.message());
    EXPECT_EQ(message.find("fits no name") == std::string::npos, fits)
        << pattern << ": " << status;
  }
}

TEST_F(LoadTest, ABoxOutsideOfItsTensorOrWithoutMemoryIsRefused) {
  WantAll();
  for (int i = 0; i < 2; ++i) {
    if (i == 0) wanted_[3].box = TensorBox{{3, 0}, {2, 6}};
    if (i == 1) wanted_[3].to = nullptr;
    const absl::Status refused = Load();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("\"moments\""));
    EXPECT_EQ(files_.bytes_read(), 0u);
    wanted_[3].box = TensorBox{{1, 0}, {2, 6}};
  }
}

TEST_F(LoadTest, DamageIsNamedByFileAndTensor) {
  WantAll();
  const std::string path = "/c/rank-1.safetensors";
  std::string bytes = ReadWhole(&memory_, path).value();
  bytes.back() ^= 1;
  ASSERT_TRUE(
      memory_.Open(path, OpenMode::kTruncate).value()->Append(bytes).ok());
  const absl::Status lost = Load();
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr(path), HasSubstr("tensor \"")));
  EXPECT_TRUE(Load({.check = HashCheck::kOff}).ok());
}

// All data of a file is wrong, in small blocks: some samples have none of it.
TEST_F(LoadTest, TheSeedDecidesWhichBlocksAreSampled) {
  WantAll();
  ManifestFile& file = manifest_.files[1];
  std::string bytes = ReadWhole(&memory_, "/c/" + file.name).value();
  ContentHasher hasher(/*block_bytes=*/32);
  hasher.Update(bytes);
  file.hashes = hasher.hashes();
  for (size_t at = bytes.size() - 200; at < bytes.size(); ++at) bytes[at] ^= 1;
  ASSERT_TRUE(memory_.Open("/c/" + file.name, OpenMode::kTruncate)
                  .value()
                  ->Append(bytes)
                  .ok());
  int lost = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    lost += absl::IsDataLoss(
        Load({.check = HashCheck::kSampled, .sample_seed = seed}));
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 40);
}

}  // namespace
}  // namespace lockstep::checkpoint

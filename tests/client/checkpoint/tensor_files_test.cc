#include "client/checkpoint/tensor_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedType Bytes(const std::string& name, int64_t bytes) {
  return {name, {DType::kU8, {bytes}}};
}

TEST(TensorFilesTest, TensorsKeepTheirOrderAndFillOneFileAfterTheOther) {
  const std::vector<NamedType> tensors = {Bytes("a", 6000), Bytes("b", 3000),
                                          Bytes("c", 3000), Bytes("d", 10)};
  EXPECT_THAT(SpreadOverFiles(tensors, 10'000).value(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(SpreadOverFiles(tensors).value(),
              ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_TRUE(SpreadOverFiles({}).value().empty());
}

TEST(TensorFilesTest, ALargeTensorHasItsOwnFile) {
  const std::vector<NamedType> tensors = {Bytes("a", 10), Bytes("b", 50'000),
                                          Bytes("c", 10), Bytes("d", 10)};
  EXPECT_THAT(SpreadOverFiles(tensors, 10'000).value(),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
  EXPECT_THAT(SpreadOverFiles(tensors, 0).value(),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2),
                          ElementsAre(3)));
}

TEST(TensorFilesTest, ASizeThatOverflowsNamesItsTensor) {
  const std::vector<NamedType> tensors = {
      Bytes("a", 10), {"b", {DType::kF32, {int64_t{1} << 62, 4}}}};
  const absl::Status refused = SpreadOverFiles(tensors).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"b\""));
}

// A header larger than the data.
TEST(TensorFilesTest, NamesThatNeedEscapesCountAsTheyAreWritten) {
  std::vector<NamedType> tensors;
  for (int i = 0; i < 100; ++i) {
    tensors.push_back(
        {absl::StrCat(i, std::string(30, '\x01')), {DType::kF8E4M3, {}}});
  }
  const auto files = SpreadOverFiles(tensors, 12'000).value();
  SafetensorsHeader header;
  for (const size_t i : files[0]) {
    header.tensors.push_back(
        {.name = tensors[i].name, .type = tensors[i].type});
  }
  ASSERT_TRUE(LayOut(&header.tensors).ok());
  const uint64_t bytes = FormatHeader(header)->size() + header.data_bytes();
  EXPECT_LE(bytes, 12'000u);
  EXPECT_GT(bytes, 9'000u);
}

// Names that need escapes, scalars, many dimensions.
TEST(TensorFilesTest, FilesOfSeveralTensorsStayWithinTheLimit) {
  constexpr uint64_t kLimit = 12'000;
  size_t several = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<NamedType> tensors;
    for (int i = 0; i < 60; ++i) {
      std::string name = absl::StrCat("t", i);
      for (uint64_t k = random() % 40; k > 0; --k) {
        name.push_back("\x01\"az"[random() % 4]);
      }
      TensorType type{kAllDTypes[random() % 14], {}};
      for (uint64_t k = random() % 5; k > 0; --k) {
        type.shape.push_back(1 + random() % 8);
      }
      tensors.push_back({name, type});
    }
    const std::map<std::string, std::string> metadata = {{"step", "20"}};
    const auto files = SpreadOverFiles(tensors, kLimit, 40);
    ASSERT_TRUE(files.ok()) << files.status();
    std::vector<size_t> all;
    for (const std::vector<size_t>& file : *files) {
      SafetensorsHeader header{.metadata = metadata};
      for (const size_t i : file) {
        header.tensors.push_back(
            {.name = tensors[i].name, .type = tensors[i].type});
        all.push_back(i);
      }
      ASSERT_TRUE(LayOut(&header.tensors).ok());
      const uint64_t bytes = FormatHeader(header)->size() + header.data_bytes();
      EXPECT_TRUE(bytes <= kLimit || file.size() == 1)
          << "seed " << seed << ": " << bytes;
    }
    EXPECT_EQ(all.size(), tensors.size());
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    several += files->size() > 1;
  }
  EXPECT_GT(several, 100u);
}

}  // namespace
}  // namespace lockstep::checkpoint

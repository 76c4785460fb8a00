#include "client/checkpoint/safetensors.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/header_bytes.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(SafetensorsNameTest, EveryDTypeButOneHasItsOwnName) {
  std::set<std::string_view> names;
  for (const DType dtype : kAllDTypes) {
    const std::string_view name = SafetensorsName(dtype);
    EXPECT_EQ(name.empty(), dtype == DType::kC128) << Name(dtype);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), std::size(kAllDTypes));
  EXPECT_EQ(SafetensorsName(static_cast<DType>(99)), "");
}

TEST(TensorBytesTest, IsTheProductOfTheExtents) {
  EXPECT_EQ(TensorBytes({DType::kF32, {2, 3}}).value(), 24u);
  EXPECT_EQ(TensorBytes({DType::kBF16, {}}).value(), 2u);
  EXPECT_EQ(TensorBytes({DType::kC128, {0, 5}}).value(), 0u);
  EXPECT_EQ(TensorBytes({DType::kU8, {int64_t{1} << 62, 2}}).value(),
            uint64_t{1} << 63);
}

TEST(TensorBytesTest, WhatHasNoSizeIsRefused) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(TensorBytes({DType::kF32, {2, -1}}).status().code(), kInvalid);
  EXPECT_EQ(TensorBytes({DType::kU8, {huge, 3}}).status().code(), kInvalid);
  EXPECT_EQ(TensorBytes({DType::kF32, {huge}}).status().code(), kInvalid);
  EXPECT_EQ(TensorBytes({DType::kF64, {1 << 30, 1 << 30, 2}}).status().code(),
            kInvalid);
  EXPECT_EQ(TensorBytes({static_cast<DType>(0), {2}}).status().code(),
            kInvalid);
  EXPECT_TRUE(TensorBytes({DType::kU8, std::vector<int64_t>(64, 1)}).ok());
  EXPECT_EQ(
      TensorBytes({DType::kU8, std::vector<int64_t>(65, 1)}).status().code(),
      kInvalid);
}

TEST(LayOutTest, LargerElementsAreFirstSoThatAllAreAligned) {
  std::vector<StoredTensor> tensors = {
      {.name = "b", .type = {DType::kU8, {3}}},
      {.name = "z", .type = {DType::kF64, {1}}},
      {.name = "a", .type = {DType::kBF16, {5}}},
      {.name = "d", .type = {DType::kC64, {2}}},
      {.name = "empty", .type = {DType::kF32, {4, 0}}},
      {.name = "c", .type = {DType::kF32, {}}},
  };
  ASSERT_EQ(LayOut(&tensors), absl::OkStatus());
  std::string order;
  uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    absl::StrAppend(&order, tensor.name, " ");
    EXPECT_EQ(tensor.begin, end);
    EXPECT_EQ(tensor.bytes(), TensorBytes(tensor.type).value());
    EXPECT_EQ(tensor.begin % SizeOf(tensor.type.dtype), 0u) << tensor.name;
    end = tensor.end;
  }
  EXPECT_EQ(order, "d z c empty a b ");
  EXPECT_EQ(end, 16u + 8 + 4 + 10 + 3);
}

TEST(LayOutTest, ASumThatOverflowsNamesItsTensor) {
  std::vector<StoredTensor> tensors;
  for (const char* name : {"a", "b", "c"}) {
    tensors.push_back(
        {.name = name, .type = {DType::kU8, {int64_t{1} << 62, 2}}});
  }
  const absl::Status refused = LayOut(&tensors);
  EXPECT_EQ(refused.code(), kInvalid);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"b\""));
}

SafetensorsHeader Sample() {
  SafetensorsHeader header{
      .tensors = {{.name = "w", .type = {DType::kF32, {2, 3}}},
                  {.name = "b\n\"\xC3\xA9", .type = {DType::kBF16, {}}}},
      .metadata = {{"step", "20"}, {"format", "pt"}}};
  EXPECT_EQ(LayOut(&header.tensors), absl::OkStatus());
  return header;
}

TEST(FormatHeaderTest, ItsBytesAreThese) {
  const std::string json =
      R"({"__metadata__":{"format":"pt","step":"20"},)"
      R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      "\"b\\n\\\"\xC3\xA9\":"
      R"({"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";
  const std::string padded = json + std::string(184 - json.size(), ' ');
  EXPECT_EQ(FormatHeader(Sample()).value(), HeaderBytes(padded));
}

TEST(FormatHeaderTest, TheDataBeginsAtAMultipleOf64) {
  for (int length = 0; length < 130; ++length) {
    SafetensorsHeader header{.tensors = {{.name = std::string(length, 'n'),
                                          .type = {DType::kU8, {1}},
                                          .end = 1}}};
    const std::string bytes = FormatHeader(header).value();
    EXPECT_EQ(bytes.size() % 64, 0u) << length;
    EXPECT_EQ(DataBegin(bytes, bytes.size() + 1).value(), bytes.size());
    EXPECT_EQ(ParseHeader(bytes, bytes.size() + 1).value(), header);
  }
}

TEST(FormatHeaderTest, IsReadBackAsItWas) {
  const SafetensorsHeader header = Sample();
  const std::string bytes = FormatHeader(header).value();
  EXPECT_EQ(ParseHeader(bytes, bytes.size() + 26).value(), header);
  const std::string empty = FormatHeader({}).value();
  EXPECT_EQ(empty.size(), 64u);
  EXPECT_EQ(ParseHeader(empty, 64).value(), SafetensorsHeader{});
}

TEST(FormatHeaderTest, EveryDTypeIsReadBackAsItWas) {
  SafetensorsHeader header;
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kC128) continue;
    header.tensors.push_back(
        {.name = std::string(Name(dtype)), .type = {dtype, {3, 1}}});
  }
  ASSERT_EQ(LayOut(&header.tensors), absl::OkStatus());
  const std::string bytes = FormatHeader(header).value();
  EXPECT_EQ(ParseHeader(bytes, bytes.size() + header.data_bytes()).value(),
            header);
}

// Refused with this code, and with this in the message.
void ExpectRefused(const SafetensorsHeader& header, absl::StatusCode code,
                   const std::string& text) {
  const absl::Status status = FormatHeader(header).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(FormatHeaderTest, ADTypeWithoutANameIsSaidToHaveNone) {
  ExpectRefused(
      {.tensors = {{.name = "w", .type = {DType::kC128, {1}}, .end = 16}}},
      absl::StatusCode::kUnimplemented, "c128");
}

TEST(FormatHeaderTest, NamesThatCannotBeWrittenAreRefused) {
  const TensorType byte{DType::kU8, {1}};
  ExpectRefused({.tensors = {{.name = "a\xFF", .type = byte, .end = 1}}},
                kInvalid, "UTF-8");
  ExpectRefused({.tensors = {{.name = "__metadata__", .type = byte, .end = 1}}},
                kInvalid, "metadata");
  ExpectRefused(
      {.tensors = {{.name = "a", .type = byte, .end = 1},
                   {.name = "a", .type = byte, .begin = 1, .end = 2}}},
      kInvalid, "twice");
  ExpectRefused({.metadata = {{"k\xC0", "v"}}}, kInvalid, "UTF-8");
  ExpectRefused({.metadata = {{"k", "\xED\xA0\x80"}}}, kInvalid, "\"k\"");
}

TEST(FormatHeaderTest, TensorsThatAreNotOneAfterTheOtherAreRefused) {
  const TensorType two{DType::kU8, {2}};
  ExpectRefused({.tensors = {{.name = "a", .type = two, .end = 3}}}, kInvalid,
                "\"a\"");
  ExpectRefused({.tensors = {{.name = "a", .type = two, .begin = 1, .end = 3}}},
                kInvalid, "\"a\"");
  ExpectRefused({.tensors = {{.name = "a", .type = two, .end = 2},
                             {.name = "b", .type = two, .begin = 1, .end = 3}}},
                kInvalid, "\"b\"");
  ExpectRefused({.tensors = {{.name = "a", .type = {DType::kU8, {-2}}}}},
                kInvalid, "-2");
}

}  // namespace
}  // namespace lockstep::checkpoint

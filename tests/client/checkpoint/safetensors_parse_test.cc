// Headers that are refused, and what the message names.

#include <cstdint>
#include <string>

#include "client/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/header_bytes.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

// Parses the JSON as the header of a file with `data_bytes` bytes of data.
absl::StatusOr<SafetensorsHeader> Parse(const std::string& json,
                                        uint64_t data_bytes) {
  const std::string bytes = HeaderBytes(json);
  return ParseHeader(bytes, bytes.size() + data_bytes);
}

std::string Entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = R"("U8")") {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

void ExpectParseError(const std::string& json, uint64_t data_bytes,
                      const std::string& text) {
  const absl::Status status = Parse(json, data_bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
      << json << ": " << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text)) << json;
}

TEST(ParseHeaderTest, AnyOrderAndPaddingOfOtherWritersIsRead) {
  const auto header = Parse(
      "{ \"b\" :\n" + Entry("[2]", "[1,3]") + ", \"__metadata__\": {}, \"a\":" +
          R"({"data_offsets":[0,1],"shape":[],"dtype":"I8"}})" + "   \n\t",
      3);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0],
            (StoredTensor{.name = "a", .type = {DType::kI8, {}}, .end = 1}));
  EXPECT_EQ(header->tensors[1],
            (StoredTensor{
                .name = "b", .type = {DType::kU8, {2}}, .begin = 1, .end = 3}));
  EXPECT_EQ(header->data_bytes(), 3u);
}

TEST(ParseHeaderTest, TensorsWithoutBytesMayBeAnywhereBetweenOthers) {
  EXPECT_TRUE(Parse("{\"a\":" + Entry("[0,9]", "[0,0]") +
                        ",\"b\":" + Entry("[4]", "[0,4]") +
                        ",\"c\":" + Entry("[3,0]", "[4,4]") + "}",
                    4)
                  .ok());
  ExpectParseError("{\"a\":" + Entry("[0]", "[2,2]") +
                       ",\"b\":" + Entry("[4]", "[0,4]") + "}",
                   4, "overlap");
  ExpectParseError("{\"a\":" + Entry("[0]", "[5,5]") +
                       ",\"b\":" + Entry("[4]", "[0,4]") + "}",
                   4, "gap");
}

TEST(ParseHeaderTest, ALengthThatIsNoneIsRefusedBeforeTheHeaderIsRead) {
  const auto code = [](const std::string& bytes, uint64_t file_bytes) {
    return DataBegin(bytes, file_bytes).status().code();
  };
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code("", 0), kRefused);
  EXPECT_EQ(code("1234567", 7), kRefused);
  EXPECT_EQ(code(LengthBytes(3), 10), kRefused);
  EXPECT_EQ(code(LengthBytes(~uint64_t{0}), 1 << 20), kRefused);
  EXPECT_EQ(code(LengthBytes(~uint64_t{0}), ~uint64_t{0}), kRefused);
  EXPECT_EQ(code(LengthBytes(100'000'001), uint64_t{1} << 40), kRefused);
  EXPECT_EQ(DataBegin(LengthBytes(100'000'000), uint64_t{1} << 40).value(),
            100'000'008u);
  EXPECT_EQ(DataBegin(LengthBytes(3), 11).value(), 11u);
  // The caller has read less than the header.
  EXPECT_EQ(ParseHeader(LengthBytes(4) + "{}", 100).status().code(), kRefused);
}

TEST(ParseHeaderTest, WhatIsNoObjectOfJsonIsRefused) {
  for (const char* json :
       {"", " {}", "\xEF\xBB\xBF{}", "[]", "{", "{}x", "{}{}", "{,}",
        "{\"a\":}", "{'a':1}", "{}\n//c", "{\"a\\ud800\":1}"}) {
    ExpectParseError(json, 0, "");
  }
  ExpectParseError(std::string("{}\0", 3), 0, "byte 10");
  ExpectParseError(std::string("{}\0]", 4), 0, "byte 10");
  ExpectParseError("{\"\xFF\":" + Entry("[]", "[0,1]") + "}", 1, "UTF-8");
  ExpectParseError(std::string(100'000, '['), 0, "");
  ExpectParseError("{\"a\":" + std::string(100'000, '['), 0, "\"a\"");
}

TEST(ParseHeaderTest, EveryKeyIsThereOnce) {
  const std::string a = Entry("[1]", "[0,1]");
  ExpectParseError("{\"a\":" + a + ",\"a\":" + a + "}", 1, "\"a\" is there tw");
  ExpectParseError("{\"a\":" + a + ",\"\\u0061\":" + a + "}", 1, "twice");
  ExpectParseError(R"({"__metadata__":{},"__metadata__":{}})", 0, "twice");
  ExpectParseError(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "\"k\"");
  ExpectParseError(
      R"({"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1,
      "dtype twice");
  ExpectParseError(
      R"({"a":{"shape":[],"dtype":"U8","data_offsets":[0,1],"shape":[]}})", 1,
      "shape twice");
}

TEST(ParseHeaderTest, AnEntryHasExactlyItsThreeFields) {
  ExpectParseError(R"({"a":{}})", 0, "no dtype");
  ExpectParseError(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1,
                   "no shape");
  ExpectParseError(R"({"a":{"dtype":"U8","shape":[]}})", 1, "no data_offsets");
  ExpectParseError(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":1}})", 1,
      "\"x\"");
  for (const char* entry : {"null", "1", "\"U8\"", "[]", "true"}) {
    ExpectParseError(std::string("{\"a\":") + entry + "}", 0, "\"a\"");
  }
}

TEST(ParseHeaderTest, MetadataAreTexts) {
  EXPECT_EQ(Parse(R"({"__metadata__":{"k":"v"}})", 0)->metadata.at("k"), "v");
  for (const char* value : {"1", "null", "{}", "[]", "1.5", "true"}) {
    ExpectParseError(std::string(R"({"__metadata__":{"k":)") + value + "}}", 0,
                     "\"k\"");
    ExpectParseError(std::string(R"({"__metadata__":)") +
                         (std::string(value) == "{}" ? "\"\"" : value) + "}",
                     0, "__metadata__");
  }
}

TEST(ParseHeaderTest, ADTypeOfTheFormatAndOneThatIsNoneAreToldApart) {
  ExpectParseError("{\"a\":" + Entry("[]", "[0,1]", R"("u8")") + "}", 1,
                   "unknown dtype \"u8\"");
  ExpectParseError("{\"a\":" + Entry("[]", "[0,1]", "8") + "}", 1, "dtype");
  const absl::Status foreign =
      Parse("{\"a\":" + Entry("[]", "[0,1]", R"("F8_E8M0")") + "}", 1).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("F8_E8M0"));
}

TEST(ParseHeaderTest, NumbersAreWholeWithoutSignAndFit) {
  for (const char* number :
       {"-1", "-0", "1.0", "1e0", "18446744073709551616", "null", "\"1\"",
        "[1]", "true", "9223372036854775808"}) {
    ExpectParseError(
        "{\"a\":" + Entry(std::string("[") + number + "]", "[0,1]") + "}", 1,
        "\"a\"");
  }
  for (const char* offsets :
       {"[-1,1]", "[0,1.0]", "[0]", "[]", "[0,1,2]", "0", "[0,[1]]",
        "{\"0\":1}", "[1e0,1]", "[0,18446744073709551617]"}) {
    ExpectParseError("{\"a\":" + Entry("[]", offsets) + "}", 1, "data_offsets");
  }
}

TEST(ParseHeaderTest, SizesThatOverflowAreRefused) {
  ExpectParseError("{\"a\":" + Entry("[4294967296,4294967296]", "[0,0]") + "}",
                   0, "overflow");
  ExpectParseError(
      "{\"a\":" + Entry("[4611686018427387904]", "[0,0]", R"("F32")") + "}", 0,
      "overflow");
  ExpectParseError("{\"a\":" +
                       Entry("[9223372036854775807]",
                             "[0,18446744073709551614]", R"("F16")") +
                       "}",
                   2, "\"a\"");
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  ExpectParseError("{\"a\":" + Entry(ones + "]", "[0,1]") + "}", 1,
                   "dimensions");
}

TEST(ParseHeaderTest, RangesThatDoNotFillTheDataAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return "{\"first\":" + Entry("[2]", a) + ",\"second\":" + Entry("[2]", b) +
           "}";
  };
  EXPECT_TRUE(Parse(two("[0,2]", "[2,4]"), 4).ok());
  EXPECT_TRUE(Parse(two("[2,4]", "[0,2]"), 4).ok());
  ExpectParseError(two("[0,2]", "[0,2]"), 4, "overlap");
  ExpectParseError(two("[0,2]", "[1,3]"), 3, "\"second\"");
  ExpectParseError(two("[0,2]", "[3,5]"), 5, "gap");
  ExpectParseError(two("[1,3]", "[3,5]"), 5, "begins at 0");
  ExpectParseError(two("[0,2]", "[2,4]"), 3, "3 bytes of data");
  ExpectParseError(two("[0,2]", "[2,4]"), 5, "5 bytes of data");
  ExpectParseError(two("[0,2]", "[4,2]"), 4, "\"second\"");
  ExpectParseError(two("[0,2]", "[2,3]"), 3, "u8[2] has 2 bytes");
  ExpectParseError("{}", 1, "no tensor");
  ExpectParseError("{\"a\":" + Entry("[2]", "[9223372036854775808,2]") + "}", 2,
                   "\"a\"");
}

TEST(ParseHeaderTest, NamesInMessagesArePrintableAndShort) {
  const std::string name = R"(\u001b[2J)" + std::string(1000, 'x');
  const std::string message(
      Parse("{\"" + name + "\":" + Entry("[2]", "[0,1]") + "}", 1)
          .status()
          .message());
  EXPECT_THAT(message, HasSubstr("\\x1b[2J"));
  EXPECT_LT(message.size(), 300u);
}

}  // namespace
}  // namespace lockstep::checkpoint

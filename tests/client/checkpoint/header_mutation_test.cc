// Random mutants of headers: none is accepted with tensors that do not fill the
// data exactly, or with other tensors than its JSON has. The rule here shares
// no code with the parser: it paints the data, and reads the JSON as a tree.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/header_bytes.h"
#include "tests/support/sanitizers.h"

namespace lockstep::checkpoint {
namespace {

using Random = std::mt19937_64;

const std::map<std::string, uint64_t> kSizes = {
    {"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1},
    {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2},    {"I32", 4}, {"U32", 4}, {"F32", 4},
    {"F64", 8},     {"I64", 8}, {"U64", 8}, {"C64", 8}};

uint64_t Below(Random* random, uint64_t bound) { return (*random)() % bound; }

// A file without its data.
struct FileHead {
  std::string bytes;
  uint64_t file_bytes = 0;
};

// A random valid header, as JSON without white space.
struct ValidHeader {
  std::string json = "{";
  uint64_t data_bytes = 0;
};

ValidHeader RandomHeader(Random* random) {
  ValidHeader valid;
  if (Below(random, 2) == 0) {
    valid.json += R"("__metadata__":{"step":"20","k\u00e9y":"v"})";
  }
  const uint64_t tensors = Below(random, 6);
  for (uint64_t i = 0; i < tensors; ++i) {
    const auto dtype = std::next(kSizes.begin(), Below(random, kSizes.size()));
    uint64_t bytes = dtype->second;
    std::string shape;
    for (uint64_t k = Below(random, 4); k > 0; --k) {
      const uint64_t extent = Below(random, 4);
      absl::StrAppend(&shape, shape.empty() ? "" : ",", extent);
      bytes *= extent;
    }
    absl::StrAppend(&valid.json, valid.json.size() == 1 ? "" : ",", "\"t", i,
                    R"(":{"dtype":")", dtype->first, R"(","shape":[)", shape,
                    R"(],"data_offsets":[)", valid.data_bytes, ",",
                    valid.data_bytes + bytes, "]}");
    valid.data_bytes += bytes;
  }
  valid.json += "}";
  return valid;
}

// Where the runs of digits begin and end.
std::vector<std::pair<size_t, size_t>> Numbers(const std::string& json) {
  std::vector<std::pair<size_t, size_t>> numbers;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(json[i]))) continue;
    const size_t begin = i;
    while (i < json.size() && std::isdigit(static_cast<unsigned char>(json[i])))
      ++i;
    numbers.emplace_back(begin, i);
  }
  return numbers;
}

void MutateNumber(Random* random, std::string* json) {
  const auto numbers = Numbers(*json);
  if (numbers.empty()) return;
  const auto [begin, end] = numbers[Below(random, numbers.size())];
  static const char* const kOdd[] = {"0",
                                     "1",
                                     "2",
                                     "-1",
                                     "-0",
                                     "1.0",
                                     "1e2",
                                     "00",
                                     "null",
                                     "9223372036854775807",
                                     "4294967296",
                                     "\"1\"",
                                     "[1]",
                                     "18446744073709551615",
                                     "9223372036854775808",
                                     "18446744073709551616",
                                     "4611686018427387904"};
  std::string other = kOdd[Below(random, std::size(kOdd))];
  if (Below(random, 2) == 0) {  // a number near it, or one from elsewhere
    const auto [from, to] = numbers[Below(random, numbers.size())];
    const uint64_t near = std::strtoull(json->c_str() + begin, nullptr, 10);
    other = Below(random, 2) == 0 ? json->substr(from, to - from)
                                  : absl::StrCat(near + Below(random, 9) - 4);
  }
  json->replace(begin, end - begin, other);
}

void MutateBytes(Random* random, std::string* json) {
  const size_t at = Below(random, json->size());
  static const char kBytes[] = "{}[]\",:0159.-eE\\ \n\x00\x80\xFF_ntu";
  const char byte = kBytes[Below(random, sizeof(kBytes) - 1)];
  switch (Below(random, 4)) {
    case 0: (*json)[at] = byte; break;
    case 1: json->insert(at, 1, byte); break;
    case 2: json->erase(at, 1 + Below(random, 8)); break;
    default: (*json)[at] ^= 1 << Below(random, 8);
  }
}

// Copies or removes a piece between two marks of JSON's grammar, as an entry.
void MutateParts(Random* random, std::string* json) {
  std::vector<size_t> marks;
  for (size_t i = 0; i < json->size(); ++i) {
    if (std::string("{},[]").find((*json)[i]) != std::string::npos) {
      marks.push_back(i);
    }
  }
  if (marks.size() < 2) return;
  size_t a = marks[Below(random, marks.size())];
  size_t b = marks[Below(random, marks.size())];
  if (a > b) std::swap(a, b);
  const std::string part = json->substr(a, b - a);
  if (Below(random, 3) == 0)
    json->erase(a, b - a);
  else
    json->insert(marks[Below(random, marks.size())], part);
}

void MutateWord(Random* random, std::string* json) {
  static const std::pair<const char*, const char*> kWords[] = {
      {"\"t0\"", "\"t1\""},
      {"\"t1\"", "\"\\u0074\\u0030\""},
      {"\"t2\"", "\"__metadata__\""},
      {"U8", "C64"},
      {"F32", "F8_E8M0"},
      {"I64", "F64"},
      {"shape", "dtype"},
      {"data_offsets", "shape"},
      {"\"step\"", "\"t0\""},
      {"16", "32"}};
  const auto& [from, to] = kWords[Below(random, std::size(kWords))];
  const size_t at = json->find(from);
  if (at != std::string::npos) json->replace(at, std::strlen(from), to);
}

FileHead Mutant(uint64_t seed) {
  Random random(seed);
  ValidHeader valid = RandomHeader(&random);
  std::string json = valid.json;
  uint64_t data_bytes = valid.data_bytes;
  for (uint64_t i = Below(&random, 4); i > 0; --i) {
    switch (json.empty() ? 4 : Below(&random, 5)) {
      case 0: MutateNumber(&random, &json); break;
      case 1: MutateBytes(&random, &json); break;
      case 2: MutateParts(&random, &json); break;
      case 3: MutateWord(&random, &json); break;
      default: data_bytes += Below(&random, 5) - 2;
    }
  }
  std::string bytes = HeaderBytes(json);
  const uint64_t file_bytes = bytes.size() + data_bytes;
  if (Below(&random, 16) == 0) bytes[Below(&random, 8)] ^= 1;  // the length
  if (Below(&random, 16) == 0) bytes.resize(Below(&random, bytes.size() + 1));
  return {bytes, file_bytes};
}

// What is wrong with an accepted header; empty if it is right.
std::string FaultOf(const FileHead& file, const SafetensorsHeader& header) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length * 256 + static_cast<uint8_t>(file.bytes[i]);
  }
  if (file.bytes.size() < 8 + length) return "the header is not whole";
  const uint64_t data_bytes = file.file_bytes - 8 - length;
  if (data_bytes > 100'000) return "more data than any mutant has";

  // Which the tree's parser takes for the end.
  if (file.bytes.find('\0', 8) < 8 + length) return "a zero byte in the JSON";

  // The keys of the outer object: a tree has only the last of two equal ones.
  size_t keys = 0;
  const auto tree = nlohmann::json::parse(
      file.bytes.substr(8, length),
      [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json&) {
        keys += depth == 1 && event == nlohmann::json::parse_event_t::key;
        return true;
      },
      /*allow_exceptions=*/false);
  if (!tree.is_object()) return "no JSON object";
  if (keys != tree.size()) return "a key is there twice";
  const size_t metadata = tree.count("__metadata__");
  if (header.tensors.size() + metadata != keys) return "tensors are missing";

  std::vector<int> paint(data_bytes, 0);
  for (const StoredTensor& tensor : header.tensors) {
    const auto entry = tree.find(tensor.name);
    if (entry == tree.end()) return "a tensor of another name";
    if (entry->size() != 3) return "not three fields";
    const auto size = kSizes.find(entry->at("dtype").get<std::string>());
    if (size == kSizes.end()) return "an unknown dtype";
    const auto shape = entry->at("shape").get<std::vector<double>>();
    double bytes = size->second;  // exact below 2^53, and never wraps
    for (const double extent : shape) bytes *= extent;
    if (bytes != static_cast<double>(tensor.end - tensor.begin)) {
      return "another size than the shape's";
    }
    if (entry->at("data_offsets") != nlohmann::json{tensor.begin, tensor.end}) {
      return "other offsets than the JSON's";
    }
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return "a range outside of the data";
    }
    for (uint64_t i = tensor.begin; i < tensor.end; ++i) ++paint[i];
  }
  const bool once = std::all_of(paint.begin(), paint.end(),
                                [](int count) { return count == 1; });
  return once ? "" : "bytes of no tensor, or of two";
}

TEST(HeaderMutationTest, NoMutantIsAcceptedWithTensorsThatItDoesNotHave) {
  const uint64_t mutants = kUnderSanitizer ? 20'000 : 50'000;
  int accepted = 0, changed = 0;
  for (uint64_t seed = 1; seed <= mutants; ++seed) {
    const FileHead file = Mutant(seed);
    const auto header = ParseHeader(file.bytes, file.file_bytes);
    if (!header.ok()) {
      EXPECT_FALSE(header.status().message().empty()) << "seed " << seed;
      continue;
    }
    ++accepted;
    Random random(seed);
    changed += file.bytes != HeaderBytes(RandomHeader(&random).json);
    const std::string fault = FaultOf(file, *header);
    ASSERT_EQ(fault, "") << "seed " << seed << ": " << file.bytes.substr(8)
                         << " in a file of " << file.file_bytes << " bytes";
  }
  // About a third is accepted, of which some differ from what they were made
  // of.
  EXPECT_GT(accepted, static_cast<int>(mutants / 5));
  EXPECT_LT(accepted, static_cast<int>(mutants / 2));
  EXPECT_GT(changed, static_cast<int>(mutants / 200));
}

// Bytes that were never a header.
TEST(HeaderMutationTest, RandomBytesAreRefused) {
  Random random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes(Below(&random, 200), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const uint64_t file_bytes = bytes.size() + Below(&random, 100);
    EXPECT_FALSE(ParseHeader(bytes, file_bytes).ok());
    if (bytes.size() < 10) continue;
    bytes.replace(0, 9, LengthBytes(bytes.size() - 8) + "{");
    EXPECT_FALSE(ParseHeader(bytes, file_bytes).ok());
  }
}

}  // namespace
}  // namespace lockstep::checkpoint

#include "client/checkpoint/manifest.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

constexpr auto kRefusedManifest = absl::StatusCode::kInvalidArgument;

ManifestFile FileOf(const std::string& name, uint64_t bytes) {
  ManifestFile file{.name = name};
  file.hashes.bytes = bytes;
  file.hashes.file = "00112233445566778899aabbccddeeff";
  for (uint64_t i = 0; i < BlockCount(bytes, kHashBlockBytes); ++i) {
    file.hashes.blocks.push_back(0xF000000000000000 + i);
  }
  return file;
}

Manifest SampleManifest() {
  return {
      .job = "dig\"its",
      .step = 20,
      .epoch = 3,
      .attempt = 1,
      .mesh = {{{"data", 1}, {"model", 2}}},
      .training = {.step = 20,
                   .epoch = 2,
                   .learning_rate = 0.1,
                   .metadata = {{"note", "a\nb \xC3\xA9"}, {"empty", ""}},
                   .samples = SampleCursor{~uint64_t{0}, 1797, 640}},
      .tensors = {{.name = "w",
                   .type = {DType::kBF16, {4, 6}},
                   .slices = {{"rank-0.safetensors", "w", {{0, 0}, {4, 3}}},
                              {"rank-1.safetensors", "w", {{0, 3}, {4, 3}}}}},
                  {.name = "scale",
                   .type = {DType::kF32, {}},
                   .slices = {{"rank-1.safetensors", "scale", {}}}},
                  {.name = "none", .type = {DType::kC128, {0, 2}}}},
      .files = {FileOf("rank-0.safetensors", 9'000'000),
                FileOf("rank-1.safetensors", 100), FileOf("empty", 0)}};
}

TEST(ManifestTest, IsReadBackAsItWas) {
  const Manifest manifest = SampleManifest();
  const auto text = FormatManifest(manifest);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseManifest(*text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, manifest);
  EXPECT_EQ(FormatManifest(*parsed).value(), *text);
}

TEST(ManifestTest, OneWithoutTensorsAndSamplesIsReadBackToo) {
  const Manifest manifest{.job = "j", .training = {.learning_rate = 1e-300}};
  const auto parsed = ParseManifest(FormatManifest(manifest).value());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, manifest);
}

TEST(ManifestTest, ItsTextIsThis) {
  Manifest manifest = SampleManifest();
  manifest.tensors.resize(1);
  manifest.files.erase(manifest.files.begin());
  manifest.tensors[0].type.shape = {4, 3};
  manifest.tensors[0].slices.erase(manifest.tensors[0].slices.begin());
  manifest.tensors[0].slices[0].box.begin = {0, 0};
  manifest.training.metadata.erase("note");
  const std::string text = FormatManifest(manifest).value();
  const std::string expected = R"({"version":1,
"job":"dig\"its","step":20,"epoch":3,"attempt":1,"mesh":"data=1,model=2",
"training":{"step":20,"epoch":2,"learning_rate":0.1,"metadata":{"empty":""},"samples":{"seed":18446744073709551615,"dataset_size":1797,"position":640}},
"tensors":[
{"name":"w","dtype":"bf16","shape":[4,3],"slices":[{"file":"rank-1.safetensors","stored_as":"w","begin":[0,0],"shape":[4,3]}]}],
"files":[
{"name":"rank-1.safetensors","bytes":100,"xxh3":"00112233445566778899aabbccddeeff","block_bytes":4194304,"blocks":["f000000000000000"]},
{"name":"empty","bytes":0,"xxh3":"00112233445566778899aabbccddeeff","block_bytes":4194304,"blocks":[]}],
"xxh3":")";
  ContentHasher hasher;
  hasher.Update(expected);
  EXPECT_EQ(text, absl::StrCat(expected, hasher.hashes().file, "\"}\n"));
}

struct BadManifest {
  const char* text;  // in the message
  std::function<void(Manifest&)> change;
};

TEST(ManifestTest, WhatContradictsItselfIsRefusedByName) {
  const std::vector<BadManifest> table = {
      {"job", [](Manifest& m) { m.job = ""; }},
      {"negative", [](Manifest& m) { m.attempt = -1; }},
      {"negative", [](Manifest& m) { m.training.epoch = -1; }},
      {"finite",
       [](Manifest& m) {
         m.training.learning_rate = std::numeric_limits<double>::quiet_NaN();
       }},
      {"UTF-8", [](Manifest& m) { m.training.metadata["k"] = "\xFF"; }},
      {"samples", [](Manifest& m) { m.training.samples->position = -1; }},
      {"", [](Manifest& m) { m.mesh.axes[0].size = 0; }},
      // Files.
      {"../x", [](Manifest& m) { m.files[2].name = "../x"; }},
      {"a/b", [](Manifest& m) { m.files[2].name = "a/b"; }},
      {"\"..\"", [](Manifest& m) { m.files[2].name = ".."; }},
      {"\".hidden\"", [](Manifest& m) { m.files[2].name = ".hidden"; }},
      {"plain name", [](Manifest& m) { m.files[2].name = ""; }},
      {"plain name", [](Manifest& m) { m.files[2].name = "a\n"; }},
      {"plain name", [](Manifest& m) { m.files[2].name = kManifestName; }},
      {"twice", [](Manifest& m) { m.files[2].name = m.files[0].name; }},
      {"4 hashes for 3",
       [](Manifest& m) { m.files[0].hashes.blocks.resize(4); }},
      {"3 hashes for 1", [](Manifest& m) { m.files[0].hashes.bytes = 100; }},
      {"0 bytes", [](Manifest& m) { m.files[1].hashes.block_bytes = 0; }},
      {"hexadecimal", [](Manifest& m) { m.files[1].hashes.file[3] = 'G'; }},
      // Tensors.
      {"twice", [](Manifest& m) { m.tensors[2].name = "w"; }},
      {"printable", [](Manifest& m) { m.tensors[0].name = "w\x1b"; }},
      {"printable", [](Manifest& m) { m.tensors[0].name = ""; }},
      {"extent", [](Manifest& m) { m.tensors[2].type.shape = {-1}; }},
      {"dtype",
       [](Manifest& m) { m.tensors[2].type.dtype = static_cast<DType>(0); }},
      {"\"w\"", [](Manifest& m) { m.tensors[0].slices.pop_back(); }},
      {"overlap",
       [](Manifest& m) {
         m.tensors[0].slices[1].box = {{0, 2}, {4, 4}};
       }},
      {"not in the list",
       [](Manifest& m) { m.tensors[0].slices[1].file = "rank-2"; }},
      {"stored as",
       [](Manifest& m) { m.tensors[1].slices[0].stored_as = "w"; }},
      {"printable", [](Manifest& m) { m.tensors[1].slices[0].stored_as = ""; }},
      {"printable",
       [](Manifest& m) { m.tensors[1].slices[0].stored_as = "__metadata__"; }},
  };
  for (size_t i = 0; i < table.size(); ++i) {
    Manifest manifest = SampleManifest();
    table[i].change(manifest);
    const absl::Status status = Validate(manifest);
    EXPECT_EQ(status.code(), kRefusedManifest) << i << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(table[i].text)) << i;
    EXPECT_EQ(FormatManifest(manifest).status(), status) << i;
  }
}

// The text with a part replaced, and the hash at its end made right.
std::string Edited(const std::string& from, const std::string& to) {
  const std::string text = FormatManifest(SampleManifest()).value();
  std::string edited = absl::StrReplaceAll(text, {{from, to}});
  EXPECT_NE(edited, text) << from;
  edited.resize(edited.size() - 32 - 3);
  ContentHasher hasher;
  hasher.Update(edited);
  return absl::StrCat(edited, hasher.hashes().file, "\"}\n");
}

TEST(ManifestTest, ATextWithAnotherFormIsRefusedByPath) {
  struct Edit {
    const char *from, *to, *text;
  };
  const Edit edits[] = {
      {"\"job\":", "\"jop\":", "job: is missing"},
      {"\"step\":20,\"epoch\":3", "\"step\":20,\"more\":1,\"epoch\":3",
       "more: is not known"},
      {"\"epoch\":3", "\"step\":20,\"epoch\":3", "twice"},
      {"\"epoch\":3", "\"epoch\":3.0", "epoch: must be a whole number"},
      {"\"epoch\":3", "\"epoch\":-3", "epoch: must be a whole number"},
      {"\"epoch\":3", "\"epoch\":9223372036854775808", "epoch: is too large"},
      {"\"epoch\":3", "\"epoch\":\"3\"", "epoch"},
      {"data=1,", "data=1,,", "mesh"},
      {"\"learning_rate\":0.1", "\"learning_rate\":null",
       "training.learning_rate"},
      {"\"metadata\":{", "\"metadata\":{\"n\":1,", "training.metadata"},
      {"\"position\":640", "\"position\":true", "training.samples.position"},
      {"\"bf16\"", "\"BF16\"", "tensors[0].dtype"},
      {"[4,6]", "[4,-6]", "tensors[0].shape"},
      {"\"begin\":[0,3]", "\"begin\":3", "tensors[0].slices[1].begin"},
      {"\"stored_as\":\"scale\"", "\"stored\":\"scale\"",
       "tensors[1].slices[0].stored_as: is missing"},
      {"\"f000000000000000\"", "\"f00000000000000\"", "files[0].blocks"},
      {"\"f000000000000000\"", "\"0xf0000000000000\"", "files[0].blocks"},
      {"\"files\":[", "\"files\":{", "no JSON"},
      {"\"version\":1", "\"version\":0", "version 1"},
      {"\"version\":1", "\"versions\":1", "version 1"},
      {"[4,6]", "[4,7]", "elements are in no slice"},
      {"\"name\":\"empty\"", "\"name\":\"../x\"", "../x"},
  };
  for (const Edit& edit : edits) {
    const absl::Status status =
        ParseManifest(Edited(edit.from, edit.to)).status();
    EXPECT_EQ(status.code(), kRefusedManifest) << edit.to << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(edit.text)) << edit.to;
  }
}

TEST(ManifestTest, ANewerVersionIsNamed) {
  const absl::Status newer =
      ParseManifest(Edited("\"version\":1", "\"version\":2,\"other\":[]"))
          .status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(newer.message()), HasSubstr("version 2"));
}

TEST(ManifestTest, AnyFlippedBitOrMissingByteIsDataLoss) {
  const std::string text = FormatManifest(SampleManifest()).value();
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] ^= 1 << at % 8;
    EXPECT_EQ(ParseManifest(flipped).status().code(),
              absl::StatusCode::kDataLoss)
        << at;
    EXPECT_EQ(ParseManifest(text.substr(0, at)).status().code(),
              absl::StatusCode::kDataLoss)
        << at;
  }
  EXPECT_FALSE(ParseManifest(text + "\n").ok());
  EXPECT_FALSE(ParseManifest(text + text).ok());
}

// With the right hash: accepted mutants are what their own text says.
TEST(ManifestTest, RandomMutantsAreRefusedOrReadBackAsTheyAre) {
  std::string body = FormatManifest(SampleManifest()).value();
  body.resize(body.size() - 32 - 3);
  int accepted = 0;
  const uint64_t mutants = kUnderSanitizer ? 1'000 : 5'000;
  for (uint64_t seed = 1; seed <= mutants; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = body;
    static const char kBytes[] = "{}[]\",:0129.-e\\ \n\0\xFF_ntu";
    for (uint64_t i = 1 + random() % 2; i > 0; --i) {
      const size_t at = random() % (text.size() - 10);
      const char byte = kBytes[random() % (sizeof(kBytes) - 1)];
      switch (random() % 3) {
        case 0: text[at] = byte; break;
        case 1: text.erase(at, 1); break;
        default: text.insert(at, 1, byte);
      }
    }
    ContentHasher hasher;
    hasher.Update(text);
    const auto parsed =
        ParseManifest(absl::StrCat(text, hasher.hashes().file, "\"}\n"));
    if (!parsed.ok()) {
      EXPECT_FALSE(parsed.status().message().empty()) << "seed " << seed;
      continue;
    }
    ++accepted;
    EXPECT_EQ(Validate(*parsed), absl::OkStatus()) << "seed " << seed;
    EXPECT_EQ(ParseManifest(FormatManifest(*parsed).value()).value(), *parsed)
        << "seed " << seed;
  }
  EXPECT_GT(accepted, static_cast<int>(mutants) / 50);
  EXPECT_LT(accepted, static_cast<int>(mutants) / 2);
}

}  // namespace
}  // namespace lockstep::checkpoint

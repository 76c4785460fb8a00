#include "client/checkpoint/manifest_fields.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson Tree(const TrainingState& training) {
  OrderedJson tree = {{"step", training.step},
                      {"epoch", training.epoch},
                      {"learning_rate", training.learning_rate},
                      {"metadata", OrderedJson::object()}};
  for (const auto& [key, value] : training.metadata) {
    tree["metadata"][key] = value;
  }
  if (training.samples.has_value()) {
    tree["samples"] = {{"seed", training.samples->seed},
                       {"dataset_size", training.samples->dataset_size},
                       {"position", training.samples->position}};
  }
  return tree;
}

OrderedJson Tree(const ManifestTensor& tensor) {
  OrderedJson slices = OrderedJson::array();
  for (const ManifestSlice& slice : tensor.slices) {
    slices.push_back({{"file", slice.file},
                      {"stored_as", slice.stored_as},
                      {"begin", slice.box.begin},
                      {"shape", slice.box.shape}});
  }
  return {{"name", tensor.name},
          {"dtype", std::string(Name(tensor.type.dtype))},
          {"shape", tensor.type.shape},
          {"slices", std::move(slices)}};
}

OrderedJson Tree(const ManifestFile& file) {
  OrderedJson blocks = OrderedJson::array();
  for (const uint64_t block : file.hashes.blocks) {
    blocks.push_back(absl::StrFormat("%016x", block));
  }
  return {{"name", file.name},
          {"bytes", file.hashes.bytes},
          {"xxh3", file.hashes.file},
          {"block_bytes", file.hashes.block_bytes},
          {"blocks", std::move(blocks)}};
}

template <typename T>
std::string Lines(const std::vector<T>& values) {
  return absl::StrCat("[", values.empty() ? "" : "\n",
                      absl::StrJoin(values, ",\n",
                                    [](std::string* out, const T& value) {
                                      out->append(Tree(value).dump());
                                    }),
                      "]");
}

constexpr char kHashKey[] = ",\n\"xxh3\":\"";
constexpr char kEnd[] = "\"}\n";
constexpr size_t kDigestBytes = 32;

std::string DigestOf(absl::string_view text) {
  ContentHasher hasher;
  hasher.Update(text);
  return hasher.hashes().file;
}

// A hash as 16 hexadecimal digits.
bool ParseHash(const std::string& text, uint64_t* hash) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         absl::SimpleHexAtoi(text, hash);
}

ManifestTensor ReadTensor(ObjectReader& fields) {
  ManifestTensor tensor;
  std::string dtype;
  fields.Read("name", &tensor.name);
  fields.Read("dtype", &dtype);
  fields.Read("shape", &tensor.type.shape);
  const std::optional<DType> known = ParseDType(dtype);
  if (!known.has_value()) fields.Fail("dtype", "is not known");
  tensor.type.dtype = known.value_or(DType::kF32);
  fields.ReadList("slices", [&](ObjectReader& slice_fields) {
    ManifestSlice& slice = tensor.slices.emplace_back();
    slice_fields.Read("file", &slice.file);
    slice_fields.Read("stored_as", &slice.stored_as);
    slice_fields.Read("begin", &slice.box.begin);
    slice_fields.Read("shape", &slice.box.shape);
  });
  return tensor;
}

ManifestFile ReadFile(ObjectReader& fields) {
  ManifestFile file;
  std::vector<std::string> blocks;
  fields.Read("name", &file.name);
  fields.Read("bytes", &file.hashes.bytes);
  fields.Read("xxh3", &file.hashes.file);
  fields.Read("block_bytes", &file.hashes.block_bytes);
  fields.Read("blocks", &blocks);
  for (const std::string& block : blocks) {
    if (!ParseHash(block, &file.hashes.blocks.emplace_back())) {
      fields.Fail("blocks", "must be texts of 16 hexadecimal digits");
    }
  }
  return file;
}

}  // namespace

std::string JsonOf(const TrainingState& training) {
  return Tree(training).dump();
}
std::string JsonOf(const std::vector<ManifestTensor>& tensors) {
  return Lines(tensors);
}
std::string JsonOf(const std::vector<ManifestFile>& files) {
  return Lines(files);
}

void ReadTraining(ObjectReader& fields, TrainingState* training) {
  fields.ReadObject("training", [&](ObjectReader& values) {
    values.Read("step", &training->step);
    values.Read("epoch", &training->epoch);
    values.Read("learning_rate", &training->learning_rate);
    values.Read("metadata", &training->metadata);
    if (!values.Has("samples")) return;
    values.ReadObject("samples", [&](ObjectReader& samples) {
      SampleCursor& cursor = training->samples.emplace();
      samples.Read("seed", &cursor.seed);
      samples.Read("dataset_size", &cursor.dataset_size);
      samples.Read("position", &cursor.position);
    });
  });
}

void ReadTensors(ObjectReader& fields, std::vector<ManifestTensor>* tensors) {
  fields.ReadList("tensors", [&](ObjectReader& tensor) {
    tensors->push_back(ReadTensor(tensor));
  });
}

void ReadFiles(ObjectReader& fields, std::vector<ManifestFile>* files) {
  fields.ReadList(
      "files", [&](ObjectReader& file) { files->push_back(ReadFile(file)); });
}

std::string WithDigest(absl::string_view text) {
  const std::string before = absl::StrCat(text, kHashKey);
  return absl::StrCat(before, DigestOf(before), kEnd);
}

absl::StatusOr<std::string> CheckDigest(absl::string_view text,
                                        absl::string_view kind) {
  const size_t tail_bytes = kDigestBytes + sizeof(kEnd) - 1;
  if (!absl::EndsWith(text, kEnd) ||
      text.size() < tail_bytes + sizeof(kHashKey) - 1) {
    return absl::DataLossError(
        absl::StrCat("the ", kind, " does not end with its hash"));
  }
  const absl::string_view before = text.substr(0, text.size() - tail_bytes);
  if (!absl::EndsWith(before, kHashKey)) {
    return absl::DataLossError(
        absl::StrCat("the ", kind, " does not end with its hash"));
  }
  const absl::string_view digest = text.substr(before.size(), kDigestBytes);
  const std::string found = DigestOf(before);
  if (found == digest) return found;
  return absl::DataLossError(absl::StrCat("the ", kind, " has XXH3 ", found,
                                          "; it was written with ", digest));
}

}  // namespace lockstep::checkpoint

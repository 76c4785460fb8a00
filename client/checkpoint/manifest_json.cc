// The text of a manifest:
//
//   {"version":1,
//   "job":"digits","step":20,"epoch":3,"attempt":0,"mesh":"data=1,model=2",
//   "training":{...},
//   "tensors":[
//   {...},
//   {...}],
//   "files":[
//   {...}],
//   "xxh3":"0123456789abcdef0123456789abcdef"}
//
// The last "xxh3" is the hash of all bytes before its first digit.

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/strict_json.h"

namespace lockstep::checkpoint {
namespace {

using OrderedJson = nlohmann::ordered_json;

// --- To text ----------------------------------------------------------------

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

// --- From text --------------------------------------------------------------

// A hash as 16 hexadecimal digits.
bool ParseHash(const std::string& text, uint64_t* hash) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         absl::SimpleHexAtoi(text, hash);
}

TrainingState ReadTraining(ObjectReader& fields) {
  TrainingState training;
  fields.Read("step", &training.step);
  fields.Read("epoch", &training.epoch);
  fields.Read("learning_rate", &training.learning_rate);
  fields.Read("metadata", &training.metadata);
  if (!fields.Has("samples")) return training;
  fields.ReadObject("samples", [&](ObjectReader& samples) {
    SampleCursor& cursor = training.samples.emplace();
    samples.Read("seed", &cursor.seed);
    samples.Read("dataset_size", &cursor.dataset_size);
    samples.Read("position", &cursor.position);
  });
  return training;
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

Manifest ReadManifest(ObjectReader& fields) {
  Manifest manifest;
  std::string mesh, digest;
  int64_t version = 0;
  fields.Read("version", &version);
  fields.Read("job", &manifest.job);
  fields.Read("step", &manifest.step);
  fields.Read("epoch", &manifest.epoch);
  fields.Read("attempt", &manifest.attempt);
  fields.Read("mesh", &mesh);
  fields.Read("xxh3", &digest);  // compared already
  const absl::StatusOr<Mesh> parsed = ParseMesh(mesh);
  if (!parsed.ok()) fields.Fail("mesh", parsed.status().message());
  manifest.mesh = parsed.value_or(Mesh{});
  fields.ReadObject("training", [&](ObjectReader& training) {
    manifest.training = ReadTraining(training);
  });
  fields.ReadList("tensors", [&](ObjectReader& tensor) {
    manifest.tensors.push_back(ReadTensor(tensor));
  });
  fields.ReadList("files", [&](ObjectReader& file) {
    manifest.files.push_back(ReadFile(file));
  });
  fields.Finish();
  return manifest;
}

// The version may be newer: then nothing else is known of the text.
absl::Status CheckVersion(const nlohmann::json& tree) {
  const auto found = tree.is_object() ? tree.find("version") : tree.end();
  const bool newer = found != tree.end() && found->is_number_unsigned() &&
                     found->get<uint64_t>() > kManifestVersion;
  if (newer) {
    return absl::UnimplementedError(
        absl::StrCat("the manifest has version ", found->get<uint64_t>(),
                     "; this Lockstep reads up to ", kManifestVersion));
  }
  if (found != tree.end() && *found == kManifestVersion) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the manifest has no version ", kManifestVersion));
}

absl::Status CheckDigest(absl::string_view text) {
  const size_t tail_bytes = kDigestBytes + sizeof(kEnd) - 1;
  if (!absl::EndsWith(text, kEnd) ||
      text.size() < tail_bytes + sizeof(kHashKey) - 1) {
    return absl::DataLossError("the manifest does not end with its hash");
  }
  const absl::string_view before = text.substr(0, text.size() - tail_bytes);
  if (!absl::EndsWith(before, kHashKey)) {
    return absl::DataLossError("the manifest does not end with its hash");
  }
  const absl::string_view digest = text.substr(before.size(), kDigestBytes);
  const std::string found = DigestOf(before);
  if (found == digest) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the manifest has XXH3 ", found,
                                          "; it was written with ", digest));
}

}  // namespace

absl::StatusOr<std::string> FormatManifest(const Manifest& manifest) {
  absl::Status valid = Validate(manifest);
  if (!valid.ok()) return valid;
  if (manifest.is_foreign) {
    return absl::InvalidArgumentError("the manifest of foreign files");
  }
  std::string text =
      absl::StrCat("{\"version\":", kManifestVersion,
                   ",\n\"job\":", nlohmann::json(manifest.job).dump(),
                   ",\"step\":", manifest.step, ",\"epoch\":", manifest.epoch,
                   ",\"attempt\":", manifest.attempt, ",\"mesh\":\"",
                   ToString(manifest.mesh),
                   "\",\n\"training\":", Tree(manifest.training).dump(),
                   ",\n\"tensors\":", Lines(manifest.tensors),
                   ",\n\"files\":", Lines(manifest.files), kHashKey);
  return absl::StrCat(text, DigestOf(text), kEnd);
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  absl::Status digest = CheckDigest(text);
  if (!digest.ok()) return digest;
  const absl::StatusOr<nlohmann::json> tree = ParseStrictJson(text);
  if (!tree.ok()) return tree.status();
  absl::Status status = CheckVersion(*tree);
  if (!status.ok()) return status;
  ObjectReader fields(*tree, "", &status);
  Manifest manifest = ReadManifest(fields);
  if (status.ok()) status = Validate(manifest);
  if (!status.ok()) return status;
  return manifest;
}

}  // namespace lockstep::checkpoint

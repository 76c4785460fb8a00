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

#include "absl/strings/str_cat.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/manifest_fields.h"
#include "client/checkpoint/strict_json.h"

namespace lockstep::checkpoint {
namespace {

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
  ReadTraining(fields, &manifest.training);
  ReadTensors(fields, &manifest.tensors);
  ReadFiles(fields, &manifest.files);
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

}  // namespace

absl::StatusOr<std::string> FormatManifest(const Manifest& manifest) {
  absl::Status valid = Validate(manifest);
  if (!valid.ok()) return valid;
  if (manifest.is_foreign) {
    return absl::InvalidArgumentError("the manifest of foreign files");
  }
  return WithDigest(absl::StrCat(
      "{\"version\":", kManifestVersion,
      ",\n\"job\":", nlohmann::json(manifest.job).dump(),
      ",\"step\":", manifest.step, ",\"epoch\":", manifest.epoch,
      ",\"attempt\":", manifest.attempt, ",\"mesh\":\"",
      ToString(manifest.mesh), "\",\n\"training\":", JsonOf(manifest.training),
      ",\n\"tensors\":", JsonOf(manifest.tensors),
      ",\n\"files\":", JsonOf(manifest.files)));
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  const auto digest = CheckDigest(text, "manifest");
  if (!digest.ok()) return digest.status();
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

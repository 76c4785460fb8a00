#include "client/state/part.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/checkpoint/manifest_fields.h"
#include "client/checkpoint/safetensors.h"
#include "client/checkpoint/strict_json.h"
#include "protocol/tensor_type.h"

namespace lockstep::state {
namespace {

constexpr int64_t kPartVersion = 1;

absl::Status RefusedPart(int rank, absl::string_view fault) {
  return absl::InvalidArgumentError(
      absl::StrCat("the part of rank ", rank, " ", fault));
}

absl::Status CheckPart(const RankPart& part, int rank,
                       const CheckpointName& attempt, const RankPart& first) {
  if (part.rank != rank) {
    return RefusedPart(rank, absl::StrCat("is that of rank ", part.rank));
  }
  if (part.attempt != attempt) {
    return RefusedPart(rank, absl::StrCat("is of another attempt, of step ",
                                          part.attempt.step));
  }
  if (part.training != first.training) {
    return RefusedPart(rank,
                       absl::StrCat("has another training state than rank 0: ",
                                    checkpoint::JsonOf(part.training), ", not ",
                                    checkpoint::JsonOf(first.training)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PartFileName(int rank) {
  return absl::StrCat("rank-", rank, ".part.json");
}

PartText FormatPart(const RankPart& part) {
  PartText formatted;
  formatted.text = checkpoint::WithDigest(absl::StrCat(
      "{\"version\":", kPartVersion, ",\n\"rank\":", part.rank,
      ",\"step\":", part.attempt.step, ",\"epoch\":", part.attempt.epoch,
      ",\"attempt\":", part.attempt.attempt,
      ",\n\"training\":", checkpoint::JsonOf(part.training),
      ",\n\"tensors\":", checkpoint::JsonOf(part.tensors),
      ",\n\"files\":", checkpoint::JsonOf(part.files)));
  formatted.hash = *checkpoint::CheckDigest(formatted.text, "part");
  return formatted;
}

absl::StatusOr<RankPart> ParsePart(absl::string_view text,
                                   const std::string& hash) {
  const auto digest = checkpoint::CheckDigest(text, "part");
  if (!digest.ok()) return digest.status();
  if (*digest != hash) {
    return absl::DataLossError(absl::StrCat("the part has XXH3 ", *digest,
                                            "; its rank reported ", hash));
  }
  const auto tree = checkpoint::ParseStrictJson(text);
  if (!tree.ok()) return tree.status();
  absl::Status status;
  checkpoint::ObjectReader fields(*tree, "", &status);
  RankPart part;
  int64_t version = 0, rank = 0;
  std::string seal;  // compared already
  fields.Read("version", &version);
  if (status.ok() && version != kPartVersion) {
    fields.Fail("version", absl::StrCat("is ", version, ", not 1"));
  }
  fields.Read("rank", &rank);
  if (status.ok() && rank > std::numeric_limits<int>::max()) {
    fields.Fail("rank", absl::StrCat("is ", rank, ", which no rank is"));
  }
  fields.Read("step", &part.attempt.step);
  fields.Read("epoch", &part.attempt.epoch);
  fields.Read("attempt", &part.attempt.attempt);
  checkpoint::ReadTraining(fields, &part.training);
  checkpoint::ReadTensors(fields, &part.tensors);
  checkpoint::ReadFiles(fields, &part.files);
  fields.Read("xxh3", &seal);
  fields.Finish();
  if (!status.ok()) return status;
  part.rank = static_cast<int>(rank);
  return part;
}

absl::StatusOr<checkpoint::Manifest> JoinParts(
    const CheckpointJob& job, const CheckpointName& attempt,
    const std::vector<RankPart>& parts) {
  checkpoint::Manifest manifest{.job = job.name,
                                .step = attempt.step,
                                .epoch = attempt.epoch,
                                .attempt = attempt.attempt,
                                .mesh = job.mesh};
  absl::flat_hash_map<absl::string_view, size_t> numbers;
  for (const JobTensor& tensor : job.tensors) {
    numbers.emplace(tensor.name, manifest.tensors.size());
    manifest.tensors.push_back({.name = tensor.name, .type = tensor.type});
  }
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const RankPart& part = parts[rank];
    absl::Status fits =
        CheckPart(part, static_cast<int>(rank), attempt, parts[0]);
    if (!fits.ok()) return fits;
    for (const checkpoint::ManifestTensor& tensor : part.tensors) {
      const auto found = numbers.find(tensor.name);
      if (found == numbers.end() ||
          manifest.tensors[found->second].type != tensor.type) {
        return RefusedPart(
            part.rank,
            absl::StrCat("has ", checkpoint::TensorText(tensor.name), " ",
                         TypeText(tensor.type), ", which the job does not"));
      }
      auto& slices = manifest.tensors[found->second].slices;
      slices.insert(slices.end(), tensor.slices.begin(), tensor.slices.end());
    }
    manifest.files.insert(manifest.files.end(), part.files.begin(),
                          part.files.end());
  }
  if (!parts.empty()) manifest.training = parts[0].training;
  absl::Status valid = checkpoint::Validate(manifest);
  if (!valid.ok()) return valid;
  return manifest;
}

}  // namespace lockstep::state

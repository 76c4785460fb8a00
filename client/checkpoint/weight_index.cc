#include "client/checkpoint/weight_index.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

bool IsWholeInOneFile(const ManifestTensor& tensor) {
  return tensor.slices.size() == 1 &&
         tensor.slices[0].stored_as == tensor.name &&
         tensor.slices[0].box.shape == tensor.type.shape;
}

}  // namespace

std::string FormatWeightIndex(const Manifest& manifest) {
  nlohmann::json weight_map = nlohmann::json::object();  // sorted by name
  uint64_t bytes = 0;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (!IsWholeInOneFile(tensor)) continue;
    weight_map[tensor.name] = tensor.slices[0].file;
    bytes += TensorBytes(tensor.type).value();
  }
  if (weight_map.empty()) return "";
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                {"weight_map", std::move(weight_map)}};
  return index.dump(2) + "\n";
}

absl::Status WriteWeightIndex(FileSystem* files, const std::string& folder,
                              const Manifest& manifest) {
  const std::string text = FormatWeightIndex(manifest);
  if (text.empty()) return absl::OkStatus();
  return ReplaceFile(files, absl::StrCat(folder, "/", kWeightIndexName), text);
}

}  // namespace lockstep::checkpoint

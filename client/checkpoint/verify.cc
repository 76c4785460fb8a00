#include "client/checkpoint/verify.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/checkpoint/safetensors_reader.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

absl::Status VerifyFile(FileSystem* files, const std::string& folder,
                        const Manifest& manifest, const ManifestFile& file) {
  const std::string path = absl::StrCat(folder, "/", file.name);
  // Unchecked here, so that VerifyAll can name the tensors of wrong blocks.
  auto reader = SafetensorsReader::Open(
      files, path, {.check = HashCheck::kOff, .expected = file.hashes});
  if (!reader.ok()) return reader.status();
  absl::Status status = (*reader)->VerifyAll();
  if (!status.ok()) return status;
  return WithContext(path,
                     CompareHeader(manifest, file.name, (*reader)->header()));
}

}  // namespace

absl::Status CompareHeader(const Manifest& manifest, const std::string& file,
                           const SafetensorsHeader& header) {
  absl::flat_hash_map<absl::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : header.tensors) {
    stored.emplace(tensor.name, &tensor);
  }
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const ManifestSlice& slice : tensor.slices) {
      if (slice.file != file) continue;
      const auto found = stored.find(slice.stored_as);
      if (found == stored.end()) {
        return absl::DataLossError(
            absl::StrCat(TensorText(slice.stored_as), " is missing"));
      }
      const TensorType expected{tensor.type.dtype, slice.box.shape};
      if (found->second->type != expected) {
        return absl::DataLossError(absl::StrCat(
            TensorText(slice.stored_as), " is ", TypeText(found->second->type),
            ", the manifest says ", TypeText(expected)));
      }
      stored.erase(found);
    }
  }
  if (stored.empty() || manifest.is_foreign) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(TensorText(stored.begin()->first),
                                          " is not in the manifest"));
}

VerifiedCheckpoint Verify(FileSystem* files, const AttemptFolder& folder) {
  VerifiedCheckpoint verified;
  const auto manifest = ReadManifest(files, folder);
  if (!manifest.ok()) {
    verified.wrong.push_back(manifest.status());
    return verified;
  }
  verified.tensors = static_cast<int64_t>(manifest->tensors.size());
  verified.files = static_cast<int64_t>(manifest->files.size());
  std::set<std::string> listed;
  for (const ManifestFile& file : manifest->files) {
    listed.insert(file.name);
    verified.bytes += file.hashes.bytes;
    absl::Status right = VerifyFile(files, folder.path, *manifest, file);
    if (!right.ok()) verified.wrong.push_back(std::move(right));
  }
  const auto names = files->List(folder.path);
  if (!names.ok()) {
    verified.wrong.push_back(names.status());
    return verified;
  }
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ".safetensors") || listed.contains(name)) {
      continue;
    }
    verified.wrong.push_back(absl::DataLossError(
        absl::StrCat(folder.path, "/", name, " is not in the manifest")));
  }
  return verified;
}

}  // namespace lockstep::checkpoint

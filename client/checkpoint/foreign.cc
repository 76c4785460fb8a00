#include "client/checkpoint/foreign.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/seed_layout.h"

namespace lockstep::checkpoint {

absl::StatusOr<ForeignCheckpoint> ReadPlainFile(FileSystem* files,
                                                const std::string& path) {
  const auto reader =
      SafetensorsReader::Open(files, path, {.check = HashCheck::kOff});
  if (!reader.ok()) return reader.status();
  const size_t slash = path.rfind('/');
  const std::string name =
      slash == std::string::npos ? path : path.substr(slash + 1);
  ForeignCheckpoint found;
  found.folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Manifest& manifest = found.manifest;
  manifest.is_foreign = true;
  manifest.job = "imported";
  manifest.mesh = {{{"data", 1}}};
  manifest.training.metadata = (*reader)->header().metadata;
  // As Consolidate writes it; other programs may write any text.
  const auto step = manifest.training.metadata.find("step");
  int64_t number = 0;
  if (step != manifest.training.metadata.end() &&
      absl::SimpleAtoi(step->second, &number) && number >= 0) {
    manifest.step = manifest.training.step = number;
  }
  manifest.files = {{.name = name}};
  for (const StoredTensor& tensor : (*reader)->header().tensors) {
    ManifestTensor& listed = manifest.tensors.emplace_back();
    listed.name = tensor.name;
    listed.type = tensor.type;
    if (tensor.bytes() == 0) continue;
    listed.slices = {
        {name,
         tensor.name,
         {std::vector<int64_t>(tensor.type.shape.size()), tensor.type.shape}}};
  }
  absl::Status valid = Validate(manifest);
  if (!valid.ok()) return WithContext(path, valid);
  return found;
}

absl::StatusOr<ForeignCheckpoint> ReadForeign(FileSystem* files,
                                              const std::string& path) {
  const auto names = files->List(path);
  if (names.ok()) return ReadSeedLayout(files, path);
  const absl::StatusOr<FileKind> kind = files->KindOf(path);
  if (!kind.ok()) return kind.status();
  if (*kind == FileKind::kDirectory) return names.status();
  return ReadPlainFile(files, path);
}

}  // namespace lockstep::checkpoint

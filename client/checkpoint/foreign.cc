#include "client/checkpoint/foreign.h"

#include <utility>

#include "base/status.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/seed_layout.h"
#include "client/checkpoint/training_texts.h"

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
  auto training = TrainingOf((*reader)->header().metadata);
  if (!training.ok()) return WithContext(path, training.status());
  manifest.training = *std::move(training);
  manifest.step = manifest.training.step;
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

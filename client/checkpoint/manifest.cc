#include "client/checkpoint/manifest.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/utf8.h"
#include "client/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

std::string FileText(absl::string_view name) {
  return absl::StrCat("file \"", Printable(name.substr(0, 100)), "\"");
}

absl::Status Refused(const std::string& what, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", fault));
}

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find('/') == std::string::npos && IsPrintableUtf8(name) &&
         name != kManifestName;
}

bool IsHexDigest(const std::string& text) {
  return text.size() == 32 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool IsPathBelow(const std::string& name) {
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return name.size() <= 4096 && IsPrintableUtf8(name);
}

absl::Status CheckForeignFiles(const std::vector<ManifestFile>& files) {
  std::set<absl::string_view> names;
  for (const ManifestFile& file : files) {
    const std::string text = FileText(file.name);
    if (!IsPathBelow(file.name)) {
      return Refused(text, "has no path below the folder");
    }
    if (!names.insert(file.name).second) return Refused(text, "is there twice");
    if (!file.hashes.file.empty() || !file.hashes.blocks.empty()) {
      return Refused(text, "is foreign and has hashes");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const std::vector<ManifestFile>& files) {
  std::set<absl::string_view> names;
  for (const ManifestFile& file : files) {
    const std::string text = FileText(file.name);
    if (!IsPlainFileName(file.name)) {
      return Refused(text, "has no plain name of a file beside the manifest");
    }
    if (!names.insert(file.name).second) return Refused(text, "is there twice");
    const ContentHashes& hashes = file.hashes;
    if (!IsHexDigest(hashes.file)) {
      return Refused(text, "has a hash that is not 32 hexadecimal digits");
    }
    if (hashes.block_bytes == 0) return Refused(text, "has blocks of 0 bytes");
    const uint64_t blocks = BlockCount(hashes.bytes, hashes.block_bytes);
    if (hashes.blocks.size() != blocks) {
      return Refused(text, absl::StrCat("has ", hashes.blocks.size(),
                                        " hashes for ", blocks, " blocks"));
    }
  }
  return absl::OkStatus();
}

// Names of a checkpoint's files and of the tensors that are stored in them.
struct StoredNames {
  explicit StoredNames(const std::vector<ManifestFile>& listed) {
    for (const ManifestFile& file : listed) files.insert(file.name);
  }
  absl::flat_hash_set<absl::string_view> files;
  absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>> tensors;
};

absl::Status CheckSlices(const ManifestTensor& tensor, StoredNames* stored) {
  const std::string text = TensorText(tensor.name);
  std::vector<TensorBox> boxes;
  for (const ManifestSlice& slice : tensor.slices) {
    if (!stored->files.contains(slice.file)) {
      return Refused(text, absl::StrCat("has a slice in ", FileText(slice.file),
                                        ", which is not in the list"));
    }
    if (slice.stored_as.empty() || slice.stored_as == kMetadataKey ||
        !IsPrintableUtf8(slice.stored_as)) {
      return Refused(text, absl::StrCat("has a slice without a printable name "
                                        "in ",
                                        FileText(slice.file)));
    }
    if (!stored->tensors.emplace(slice.file, slice.stored_as).second) {
      return Refused(text, absl::StrCat("has a slice in ", FileText(slice.file),
                                        ", where another one is stored as \"",
                                        slice.stored_as, "\""));
    }
    boxes.push_back(slice.box);
  }
  const std::string fault = TilingFault(tensor.type.shape, boxes);
  return fault.empty() ? absl::OkStatus()
                       : Refused(absl::StrCat(text, ":"), fault);
}

absl::Status CheckTensors(const Manifest& manifest) {
  StoredNames stored(manifest.files);
  std::set<absl::string_view> names;
  for (const ManifestTensor& tensor : manifest.tensors) {
    const std::string text = TensorText(tensor.name);
    if (tensor.name.empty() || !IsPrintableUtf8(tensor.name)) {
      return Refused(text, "has no printable name");
    }
    if (!names.insert(tensor.name).second) {
      return Refused(text, "is there twice");
    }
    const absl::StatusOr<uint64_t> bytes = TensorBytes(tensor.type);
    if (!bytes.ok()) return Refused(text, bytes.status().message());
    absl::Status slices = CheckSlices(tensor, &stored);
    if (!slices.ok()) return slices;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const TrainingState& training) {
  if (training.step < 0 || training.epoch < 0) {
    return Refused("the training state", "has a negative step or epoch");
  }
  if (!std::isfinite(training.learning_rate)) {
    return Refused("the training state", "has a learning rate not finite");
  }
  for (const auto& [key, value] : training.metadata) {
    if (ToUtf8(key) == key && ToUtf8(value) == value) continue;
    return Refused(absl::StrCat("metadata \"", Printable(key), "\""),
                   "is not UTF-8");
  }
  if (training.samples.has_value() &&
      (training.samples->dataset_size < 1 || training.samples->position < 0)) {
    return Refused("the training state", "has samples without a position");
  }
  return absl::OkStatus();
}

absl::Status Validate(const Manifest& manifest) {
  if (manifest.job.empty() || !IsPrintableUtf8(manifest.job)) {
    return Refused("the job", "has no printable name");
  }
  if (manifest.step < 0 || manifest.epoch < 0 || manifest.attempt < 0) {
    return Refused("the manifest", "has a negative step, epoch or attempt");
  }
  absl::Status status = Validate(manifest.mesh);
  if (status.ok()) status = Validate(manifest.training);
  if (status.ok()) {
    status = manifest.is_foreign ? CheckForeignFiles(manifest.files)
                                 : CheckFiles(manifest.files);
  }
  if (status.ok()) status = CheckTensors(manifest);
  return status;
}

}  // namespace lockstep::checkpoint

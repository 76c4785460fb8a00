#include "client/checkpoint/load.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"
#include "client/checkpoint/checkpoint_reader.h"
#include "client/checkpoint/safetensors.h"
#include "client/checkpoint/tensor_names.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

// Comparing names takes time with the product of their numbers.
constexpr size_t kNamePairsMax = 100'000;

// One kind of contradiction, with all its tensors.
struct Faults {
  std::string kind;
  std::vector<std::string> texts;
};

// All contradictions between a program and a checkpoint.
class Comparison {
 public:
  Comparison(const Manifest& manifest, absl::Span<const WantedTensor> wanted,
             const LoadOptions& options)
      : options_(options), selection_(options.only, options.except) {
    AddStored(manifest);
    for (const WantedTensor& tensor : wanted) AddWanted(tensor);
    ListUnknown();
    unused_.texts = selection_.Unused();
  }

  bool IsSelected(const WantedTensor& tensor) {
    return selection_.Has(tensor.name);
  }
  // `name` must be wanted, and there.
  const std::string& StoredName(const std::string& name) const {
    return stored_.at(name)->name;
  }

  // Empty if there are none.
  std::string Text() const {
    std::vector<std::string> kinds;
    for (const Faults* faults :
         {&missing_, &unexpected_, &shapes_, &dtypes_, &renamed_, &unused_}) {
      if (faults->texts.empty()) continue;
      kinds.push_back(absl::StrCat(faults->texts.size(), " ", faults->kind,
                                   ": ", absl::StrJoin(faults->texts, ", ")));
    }
    return absl::StrJoin(kinds, "; ");
  }

 private:
  void AddStored(const Manifest& manifest) {
    Renaming renaming(options_.renamed);
    for (const ManifestTensor& tensor : manifest.tensors) {
      const std::string name = renaming.NameOf(tensor.name);
      const auto [other, is_new] = stored_.emplace(name, &tensor);
      if (is_new) continue;
      renamed_.texts.push_back(absl::StrCat(TensorText(other->second->name),
                                            " and ", TensorText(tensor.name),
                                            " are both \"", name, "\""));
    }
    for (std::string& text : renaming.Faults()) {
      renamed_.texts.push_back(std::move(text));
    }
  }

  void AddWanted(const WantedTensor& tensor) {
    if (!IsSelected(tensor)) return;
    const auto [first, is_new] = wanted_.emplace(tensor.name, tensor.type);
    if (!is_new && first->second == tensor.type) return;
    const auto found = stored_.find(tensor.name);
    if (found == stored_.end()) {
      missing_types_.emplace(tensor.name, tensor.type);
      return;
    }
    const TensorType& stored = found->second->type;
    const std::string text =
        absl::StrCat(TensorText(tensor.name), " is ", TypeText(stored), ", ",
                     TypeText(tensor.type), " is wanted");
    if (stored.shape != tensor.type.shape) {
      shapes_.texts.push_back(text);
    } else if (stored.dtype != tensor.type.dtype) {
      dtypes_.texts.push_back(text);
    }
  }

  void ListUnknown() {
    std::vector<std::string> missing, unexpected;
    for (const auto& [name, type] : missing_types_) missing.push_back(name);
    for (const auto& [name, stored] : stored_) {
      if (selection_.Has(name) && wanted_.count(name) == 0) {
        unexpected.push_back(name);
      }
    }
    const bool is_cheap =
        missing.empty() || unexpected.size() <= kNamePairsMax / missing.size();
    const auto text = [&](const std::string& name, const TensorType& type,
                          const std::vector<std::string>& others) {
      const std::string nearest = is_cheap ? Nearest(name, others) : "";
      return absl::StrCat(
          TensorText(name), " ", TypeText(type),
          nearest.empty() ? "" : absl::StrCat(" (nearest: ", nearest, ")"));
    };
    for (const std::string& name : missing) {
      missing_.texts.push_back(text(name, missing_types_.at(name), unexpected));
    }
    for (const std::string& name : unexpected) {
      unexpected_.texts.push_back(text(name, stored_.at(name)->type, missing));
    }
  }

  const LoadOptions& options_;
  Selection selection_;
  std::map<std::string, const ManifestTensor*> stored_;  // by the wanted name
  std::map<std::string, TensorType> wanted_;
  std::map<std::string, TensorType> missing_types_;
  Faults missing_{"missing in the checkpoint", {}};
  Faults unexpected_{"unexpected", {}};
  Faults shapes_{"of another shape", {}};
  Faults dtypes_{"of another dtype", {}};
  Faults renamed_{"renamed wrongly", {}};
  Faults unused_{"not selected", {}};
};

}  // namespace

absl::Status LoadTensors(FileSystem* files, const std::string& folder,
                         const Manifest& manifest,
                         absl::Span<const WantedTensor> wanted,
                         const LoadOptions& options) {
  Comparison comparison(manifest, wanted, options);
  const std::string faults = comparison.Text();
  if (!faults.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " does not fit the program: ", faults));
  }
  // Files are read one after the other.
  auto reader = CheckpointReader::Open(files, folder, manifest,
                                       {.check = options.check,
                                        .sample_seed = options.sample_seed,
                                        .open_files_max = 1});
  if (!reader.ok()) return reader.status();
  std::vector<BoxRead> reads;
  for (const WantedTensor& tensor : wanted) {
    if (!tensor.box.has_value() || !comparison.IsSelected(tensor)) continue;
    reads.push_back(
        {comparison.StoredName(tensor.name), *tensor.box, tensor.to});
  }
  return (*reader)->Read(reads);
}

}  // namespace lockstep::checkpoint

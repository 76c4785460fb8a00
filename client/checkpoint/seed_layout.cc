#include "client/checkpoint/seed_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/checkpoint/safetensors_reader.h"
#include "client/checkpoint/seed_sharding.h"
#include "protocol/tensor_type.h"

namespace lockstep::checkpoint {
namespace {

constexpr char kModel[] = "model.safetensors";
constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr char kTraining[] = "training_state.json";
constexpr size_t kMissingNamedMax = 16;

// A tensor in the file of a rank.
struct RankTensor {
  int rank = 0;
  std::string file;
  TensorType type;
};
// By name; of each the ranks that have it, rising.
using RankTensors = std::map<std::string, std::vector<RankTensor>>;

TensorBox WholeBox(const TensorType& type) {
  return {std::vector<int64_t>(type.shape.size()), type.shape};
}

class SeedLayout {
 public:
  SeedLayout(FileSystem* files, const std::string& folder)
      : files_(files), folder_(folder) {}

  absl::StatusOr<ForeignCheckpoint> Read() {
    absl::Status status = FindRanks();
    for (int rank = 0; status.ok() && rank < sharding_.ranks; ++rank) {
      status = ReadRank(rank);
    }
    if (status.ok()) status = CheckSplitNames();
    if (status.ok()) status = Combine();
    if (status.ok()) status = WithContext(folder_, Validate(manifest_));
    if (!status.ok()) return status;
    return ForeignCheckpoint{folder_, std::move(manifest_)};
  }

 private:
  std::string PathOf(const std::string& file) const {
    return absl::StrCat(folder_, "/", file);
  }
  absl::Status Refused(const std::string& file, absl::string_view tensor,
                       absl::string_view fault) const {
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf(file), ": ", TensorText(tensor), " ", fault));
  }
  std::string FolderOf(int rank) const {
    return has_ranks_ ? absl::StrCat("rank_", rank, "/") : "";
  }

  absl::Status FindRanks() {
    const auto listed = files_->List(folder_);
    if (!listed.ok()) return listed.status();
    const std::set<std::string> names(listed->begin(), listed->end());
    has_ranks_ = names.count(kSeedShardingName) > 0;
    if (!has_ranks_ && names.count("rank_0") > 0) {
      return absl::NotFoundError(
          absl::StrCat(folder_, " has rank_0, but no ", kSeedShardingName));
    }
    if (!has_ranks_ && names.count(kModel) == 0) {
      return absl::NotFoundError(absl::StrCat(folder_, " has no ", kModel,
                                              " and no ", kSeedShardingName));
    }
    if (!has_ranks_) return absl::OkStatus();
    const auto text = ReadWhole(files_, PathOf(kSeedShardingName));
    if (!text.ok()) return text.status();
    auto sharding = ParseSeedSharding(*text);
    if (!sharding.ok()) {
      return WithContext(PathOf(kSeedShardingName), sharding.status());
    }
    sharding_ = *std::move(sharding);
    std::vector<std::string> missing;
    for (int rank = 0; rank < sharding_.ranks; ++rank) {
      std::string name = absl::StrCat("rank_", rank);
      if (names.count(name) > 0) continue;
      if (missing.size() == kMissingNamedMax) {
        missing.push_back("...");
        break;
      }
      missing.push_back(std::move(name));
    }
    if (missing.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(folder_, " is of ", sharding_.ranks,
                                            " ranks; it has no ",
                                            absl::StrJoin(missing, ", ")));
  }

  absl::Status ReadRank(int rank) {
    absl::Status status = ReadTensors(rank, FolderOf(rank) + kModel, &model_);
    if (!status.ok()) return status;
    const std::string optimizer = FolderOf(rank) + kOptimizer;
    const auto kind = files_->KindOf(PathOf(optimizer));
    if (kind.ok()) {
      status = ReadTensors(rank, optimizer, &optimizer_);
    } else if (!absl::IsNotFound(kind.status())) {
      status = kind.status();
    }
    if (!status.ok()) return status;
    return ReadTraining(rank);
  }

  absl::Status ReadTensors(int rank, const std::string& file,
                           RankTensors* tensors) {
    const auto reader = SafetensorsReader::Open(files_, PathOf(file),
                                                {.check = HashCheck::kOff});
    if (!reader.ok()) return reader.status();
    const RankTensors& others = tensors == &model_ ? optimizer_ : model_;
    for (const StoredTensor& stored : (*reader)->header().tensors) {
      const auto other = others.find(stored.name);
      if (other != others.end()) {
        return Refused(
            file, stored.name,
            absl::StrCat("is in ", PathOf(other->second[0].file), ", too"));
      }
      (*tensors)[stored.name].push_back({rank, file, stored.type});
    }
    return absl::OkStatus();
  }

  absl::Status ReadTraining(int rank) {
    const std::string path = PathOf(FolderOf(rank) + kTraining);
    const auto text = ReadWhole(files_, path);
    if (!text.ok()) return text.status();
    auto training = ParseSeedTraining(*text);
    if (!training.ok()) return WithContext(path, training.status());
    if (rank == 0) {
      manifest_.training = *std::move(training);
    } else if (training->step != manifest_.training.step) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has step ", training->step, "; rank 0 has step ",
                       manifest_.training.step));
    }
    return absl::OkStatus();
  }

  bool is_split() const {
    return sharding_.strategy == SeedStrategy::kTensorParallel;
  }

  absl::Status CheckSplitNames() const {
    if (!is_split()) return absl::OkStatus();
    for (const auto& [name, dim] : sharding_.split_dims) {
      if (model_.count(name) > 0) continue;
      return Refused(kSeedShardingName, name,
                     "of split_dims is in no rank's model.safetensors");
    }
    return absl::OkStatus();
  }

  absl::Status Combine() {
    manifest_.is_foreign = true;
    manifest_.job = "imported";
    manifest_.step = manifest_.training.step;
    manifest_.mesh = {{{is_split() ? "model" : "data", sharding_.ranks}}};
    for (const auto& [name, parts] : model_) {
      absl::Status status = CombineTensor(name, parts, SplitDimOf(name));
      if (!status.ok()) return status;
    }
    for (const auto& [name, parts] : optimizer_) {
      absl::Status status =
          CombineTensor(name, parts, StateSplitDimOf(name, parts));
      if (!status.ok()) return status;
    }
    for (const std::string& file : used_files_) {
      manifest_.files.push_back({.name = file});
    }
    return absl::OkStatus();
  }

  // -1: it is not divided.
  int64_t SplitDimOf(const std::string& name) const {
    const auto found = sharding_.split_dims.find(name);
    return is_split() && found != sharding_.split_dims.end() ? found->second
                                                             : -1;
  }

  // As that of the parameter "w" of "w.m".
  int64_t StateSplitDimOf(const std::string& name,
                          const std::vector<RankTensor>& parts) const {
    for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
      const std::string parameter = name.substr(0, dot);
      const int64_t dim = SplitDimOf(parameter);
      if (dim < 0) continue;
      const std::vector<RankTensor>& of = model_.at(parameter);
      for (const RankTensor& part : parts) {
        const bool is_like = std::any_of(of.begin(), of.end(), [&](auto& like) {
          return like.rank == part.rank && like.type.shape == part.type.shape;
        });
        if (!is_like) return -1;
      }
      return dim;
    }
    return -1;
  }

  absl::Status CombineTensor(const std::string& name,
                             const std::vector<RankTensor>& parts,
                             int64_t dim) {
    if (sharding_.strategy != SeedStrategy::kZeroPartitioned) {
      absl::Status all = CheckAllRanksHave(name, parts);
      if (!all.ok()) return all;
    }
    if (dim >= 0) return Concatenate(name, parts, static_cast<size_t>(dim));
    for (const RankTensor& part : parts) {
      if (part.type == parts[0].type) continue;
      return Refused(part.file, name,
                     absl::StrCat("is ", TypeText(part.type), ", in ",
                                  PathOf(parts[0].file), " it is ",
                                  TypeText(parts[0].type)));
    }
    const bool is_zero = sharding_.strategy == SeedStrategy::kZeroPartitioned;
    const RankTensor& used = is_zero ? parts.back() : parts.front();
    ManifestTensor& tensor = manifest_.tensors.emplace_back();
    tensor.name = name;
    tensor.type = used.type;
    AddSlice(&tensor, used, WholeBox(used.type));
    return absl::OkStatus();
  }

  absl::Status CheckAllRanksHave(const std::string& name,
                                 const std::vector<RankTensor>& parts) const {
    if (parts.size() == static_cast<size_t>(sharding_.ranks)) {
      return absl::OkStatus();
    }
    int missing = 0;  // the first one
    while (static_cast<size_t>(missing) < parts.size() &&
           parts[static_cast<size_t>(missing)].rank == missing) {
      ++missing;
    }
    return Refused(parts[0].file, name,
                   absl::StrCat("is not in the files of rank ", missing,
                                ", which should have it, too"));
  }

  absl::Status Concatenate(const std::string& name,
                           const std::vector<RankTensor>& parts, size_t dim) {
    const TensorType& first = parts[0].type;
    if (dim >= first.shape.size()) {
      return Refused(parts[0].file, name,
                     absl::StrCat("is ", TypeText(first),
                                  " and cannot be split over dimension ", dim));
    }
    ManifestTensor tensor{.name = name, .type = first};
    int64_t& extent = tensor.type.shape[dim];
    extent = 0;
    for (const RankTensor& part : parts) {
      TensorType like = part.type;
      if (like.shape.size() == first.shape.size()) {
        like.shape[dim] = first.shape[dim];
      }
      if (like != first) {
        return Refused(
            part.file, name,
            absl::StrCat("is ", TypeText(part.type), ", which does ",
                         "not fit ", TypeText(first), " in ",
                         PathOf(parts[0].file), " along dimension ", dim));
      }
      TensorBox box = WholeBox(part.type);
      box.begin[dim] = extent;
      if (__builtin_add_overflow(extent, part.type.shape[dim], &extent)) {
        return Refused(part.file, name, "makes a dimension that overflows");
      }
      AddSlice(&tensor, part, std::move(box));
    }
    manifest_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  void AddSlice(ManifestTensor* tensor, const RankTensor& part, TensorBox box) {
    if (std::count(box.shape.begin(), box.shape.end(), 0) > 0) return;
    used_files_.insert(part.file);
    tensor->slices.push_back({part.file, tensor->name, std::move(box)});
  }

  FileSystem* const files_;
  const std::string folder_;
  bool has_ranks_ = false;
  SeedSharding sharding_;
  RankTensors model_, optimizer_;
  std::set<std::string> used_files_;
  Manifest manifest_;
};

}  // namespace

absl::StatusOr<ForeignCheckpoint> ReadSeedLayout(FileSystem* files,
                                                 const std::string& folder) {
  return SeedLayout(files, folder).Read();
}

}  // namespace lockstep::checkpoint

#include "client/checkpoint/seed_sharding.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "client/checkpoint/strict_json.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kVersionMax = 2;
constexpr int64_t kRanksMax = 1'000'000;

absl::Status Wrong(absl::string_view field, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", fault));
}

absl::StatusOr<Json> ParseVersioned(absl::string_view text) {
  absl::StatusOr<Json> tree = ParseStrictJson(text);
  if (!tree.ok()) return tree;
  if (!tree->is_object()) {
    return absl::InvalidArgumentError("the text is no object, {...}");
  }
  const auto version = tree->find("version");
  if (version == tree->end()) return tree;
  const bool is_number = version->is_number_unsigned();
  if (is_number && version->get<uint64_t>() > kVersionMax) {
    return absl::UnimplementedError(
        absl::StrCat("version ", version->get<uint64_t>(),
                     " is newer than the known ones, up to ", kVersionMax));
  }
  if (!is_number || version->get<uint64_t>() == 0) {
    return Wrong("version", "must be 1 or 2");
  }
  return tree;
}

// "Replicated", {"ZeroPartitioned": {"stage": 2}} or "TensorParallel".
absl::StatusOr<SeedStrategy> ParseStrategy(const Json& tree) {
  if (tree == "Replicated") return SeedStrategy::kReplicated;
  if (tree == "TensorParallel") return SeedStrategy::kTensorParallel;
  if (tree.is_object() && tree.size() == 1 &&
      tree.contains("ZeroPartitioned")) {
    return SeedStrategy::kZeroPartitioned;
  }
  return Wrong("strategy",
               absl::StrCat("must be Replicated, ZeroPartitioned or "
                            "TensorParallel, is ",
                            Printable(tree.dump().substr(0, 100))));
}

absl::Status ReadSplitDims(const Json& tree, SeedSharding* sharding) {
  const auto dims = tree.find("split_dims");
  if (dims == tree.end()) return absl::OkStatus();
  if (!dims->is_object()) return Wrong("split_dims", "must be an object");
  for (const auto& [name, dim] : dims->items()) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > 63) {
      return Wrong(absl::StrCat("split_dims.", Printable(name)),
                   "must be a dimension, 0 to 63");
    }
    sharding->split_dims[name] = dim.get<int64_t>();
  }
  return absl::OkStatus();
}

// The object that has the strategy: the outermost one, or rank 0's entry.
absl::StatusOr<const Json*> FindStrategy(const Json& tree, int64_t ranks) {
  if (!tree.contains("shards")) return &tree;
  if (tree.contains("strategy")) {
    return Wrong("shards", "is there beside a strategy for all ranks");
  }
  const Json& shards = tree["shards"];
  if (!shards.is_array()) return Wrong("shards", "must be a list");
  const Json* found = nullptr;
  for (const Json& shard : shards) {
    if (!shard.is_object() || shard.value("rank", Json()) != 0) continue;
    if (found != nullptr) return Wrong("shards", "has rank 0 twice");
    found = &shard;
  }
  if (found == nullptr) return Wrong("shards", "has no entry of rank 0");
  if (found->contains("world_size") && (*found)["world_size"] != ranks) {
    return Wrong("shards", absl::StrCat("rank 0 has the world size ",
                                        (*found)["world_size"].dump(),
                                        ", the job has ", ranks));
  }
  return found;
}

}  // namespace

absl::StatusOr<SeedSharding> ParseSeedSharding(absl::string_view text) {
  const absl::StatusOr<Json> tree = ParseVersioned(text);
  if (!tree.ok()) return tree.status();
  absl::Status status;
  int64_t ranks = 0;
  ObjectReader(*tree, "", &status).Read("world_size", &ranks);
  if (!status.ok()) return status;
  if (ranks < 1 || ranks > kRanksMax) {
    return Wrong("world_size", absl::StrCat("must be 1 to ", kRanksMax));
  }
  const absl::StatusOr<const Json*> of = FindStrategy(*tree, ranks);
  if (!of.ok()) return of.status();
  const auto strategy = (*of)->find("strategy");
  if (strategy == (*of)->end()) return Wrong("strategy", "is missing");
  const absl::StatusOr<SeedStrategy> parsed = ParseStrategy(*strategy);
  if (!parsed.ok()) return parsed.status();
  SeedSharding sharding{.ranks = static_cast<int>(ranks), .strategy = *parsed};
  status = ReadSplitDims(**of, &sharding);
  if (!status.ok()) return status;
  if (sharding.strategy == SeedStrategy::kTensorParallel &&
      sharding.split_dims.empty()) {
    return Wrong("split_dims", "names no tensor; TensorParallel needs them");
  }
  return sharding;
}

absl::StatusOr<TrainingState> ParseSeedTraining(absl::string_view text) {
  const absl::StatusOr<Json> tree = ParseVersioned(text);
  if (!tree.ok()) return tree.status();
  absl::Status status;
  TrainingState training;
  ObjectReader fields(*tree, "", &status);
  fields.Read("step", &training.step);
  fields.Read("epoch", &training.epoch);
  fields.Read("learning_rate", &training.learning_rate);
  fields.Read("metadata", &training.metadata);
  if (!status.ok()) return status;
  return training;
}

}  // namespace lockstep::checkpoint

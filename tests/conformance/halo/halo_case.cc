#include "tests/conformance/halo/halo_case.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::conformance {
namespace {

using Json = nlohmann::json;

absl::Status Fault(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<DType> ReadDType(const Json& json) {
  const std::string name = json;
  const auto dtype = ParseDType(name);
  if (!dtype.has_value()) return Fault(absl::StrCat("no dtype ", name));
  return *dtype;
}

absl::StatusOr<HaloDim> ReadDim(const Json& json) {
  HaloDim dim{.dim = json.at("dim")};
  ReadIfThere(json, "axis", &dim.axis);
  ReadIfThere(json, "low", &dim.low);
  ReadIfThere(json, "high", &dim.high);
  ReadIfThere(json, "constant", &dim.constant);
  std::string edge = "zero";
  ReadIfThere(json, "edge", &edge);
  const auto known =
      std::find_if(std::begin(kAllHaloEdges), std::end(kAllHaloEdges),
                   [&edge](HaloEdge each) { return Name(each) == edge; });
  if (known == std::end(kAllHaloEdges)) {
    return Fault(absl::StrCat("no edge ", edge));
  }
  dim.edge = *known;
  return dim;
}

// Without its shape.
absl::StatusOr<HaloTensor> ReadDeclared(const Json& json) {
  const auto dtype = ReadDType(json.at("dtype"));
  if (!dtype.ok()) return dtype.status();
  HaloTensor tensor{.dtype = *dtype};
  for (const Json& one : json.at("dims")) {
    auto dim = ReadDim(one);
    if (!dim.ok()) return dim.status();
    tensor.dims.push_back(*std::move(dim));
  }
  return tensor;
}

absl::Status ReadRefusal(const Json& json, HaloCase* read) {
  HaloRefusal refusal{.kind = json.at("error"),
                      .ranks = json.at("refused"),
                      .mentions = json.at("mentions")};
  for (const Json& rank : json.at("declared")) {
    HaloSpec spec{.name = "u"};
    for (const Json& one : rank) {
      auto tensor = ReadDeclared(one);
      if (!tensor.ok()) return tensor.status();
      one.at("shape").get_to(tensor->shape);
      spec.tensors.push_back(*std::move(tensor));
    }
    read->declared.emplace_back();
    if (!rank.is_null()) read->declared.back().push_back(std::move(spec));
  }
  read->refusal = std::move(refusal);
  return absl::OkStatus();
}

// Appends tensor `json[key]` of each rank, of the shapes `json[shapes]`.
absl::Status AppendTensors(const Json& json, const char* key,
                           const char* shapes, DType dtype, RankTensors* to) {
  if (json.at(key).size() != to->size() ||
      json.at(shapes).size() != to->size()) {
    return Fault(absl::StrCat(key, " and ", shapes, " are not one for each of ",
                              to->size(), " ranks"));
  }
  for (size_t r = 0; r < to->size(); ++r) {
    auto tensor = ReadTensor({dtype, json.at(shapes)[r]}, json.at(key)[r]);
    if (!tensor.ok()) return tensor.status();
    (*to)[r].push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status ReadTensors(const Json& json, HaloCase* read) {
  const auto ranks = static_cast<size_t>(read->mesh.WorldSize());
  for (RankTensors* tensors : {&read->blocks, &read->padded,
                               &read->padded_gradients, &read->block_gradients})
    tensors->resize(ranks);
  read->declared.assign(ranks, {{.name = "u"}});
  for (const Json& one : json.at("tensors")) {
    const auto declared = ReadDeclared(one);
    if (!declared.ok()) return declared.status();
    const DType dtype = declared->dtype;
    const auto append = [&](const char* key, const char* shapes,
                            RankTensors* to) {
      return AppendTensors(one, key, shapes, dtype, to);
    };
    absl::Status status = append("blocks", "shapes", &read->blocks);
    status.Update(append("padded", "padded_shapes", &read->padded));
    status.Update(
        append("padded_gradients", "padded_shapes", &read->padded_gradients));
    status.Update(append("block_gradients", "shapes", &read->block_gradients));
    if (!status.ok()) return status;
    for (size_t r = 0; r < ranks; ++r) {
      HaloTensor& tensor = read->declared[r][0].tensors.emplace_back(*declared);
      tensor.shape = read->blocks[r].back().type.shape;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HaloCase> ReadCase(const Json& json) {
  HaloCase read{.name = json.at("name")};
  for (const Json& axis : json.at("mesh")) {
    read.mesh.axes.push_back({axis.at(0), axis.at(1)});
  }
  if (absl::Status s = Validate(read.mesh); !s.ok()) return s;
  const absl::Status rest = json.contains("error") ? ReadRefusal(json, &read)
                                                   : ReadTensors(json, &read);
  if (!rest.ok()) return rest;
  if (read.declared.size() != static_cast<size_t>(read.mesh.WorldSize())) {
    return Fault("has declarations of another number of ranks than its mesh");
  }
  return read;
}

}  // namespace

absl::StatusOr<std::vector<HaloCase>> ReadHaloCases(const CaseList& list) {
  std::vector<HaloCase> cases;
  absl::Status status = ForEachCase(list, [&cases](const Json& one) {
    auto read = ReadCase(one);
    if (read.ok()) cases.push_back(*std::move(read));
    return read.status();
  });
  if (!status.ok()) return status;
  return cases;
}

}  // namespace lockstep::conformance

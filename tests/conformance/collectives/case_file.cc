#include "tests/conformance/collectives/case_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::conformance {
namespace {

using Json = nlohmann::json;
using Kind = AxisCollectiveKind;

absl::Status Fault(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<CaseTensor> ReadTypedTensor(const Json& json) {
  const std::string name = json.at("dtype");
  const auto dtype = ParseDType(name);
  if (!dtype.has_value()) return Fault(absl::StrCat("no dtype ", name));
  return ReadTensor({*dtype, json.at("shape")}, json.at("data"));
}

absl::StatusOr<RankTensors> ReadTensors(const Json& json) {
  RankTensors ranks;
  for (const Json& rank : json) {
    std::vector<CaseTensor>& tensors = ranks.emplace_back();
    for (const Json& tensor : rank) {
      auto read = ReadTypedTensor(tensor);
      if (!read.ok()) return read.status();
      tensors.push_back(*std::move(read));
    }
  }
  return ranks;
}

absl::StatusOr<AxisCollective> ReadOperation(const std::string& name,
                                             const Json& json) {
  const auto kind = ParseAxisCollectiveKind(name);
  if (!kind.has_value()) return Fault(absl::StrCat("no operation ", name));
  AxisCollective op{.kind = *kind};
  ReadIfThere(json, "axes", &op.axes);
  ReadIfThere(json, "index_groups", &op.index_groups);
  ReadIfThere(json, "axis", &op.axis);
  ReadIfThere(json, "split_axis", &op.axis);
  ReadIfThere(json, "scatter_dimension", &op.axis);
  ReadIfThere(json, "concat_axis", &op.concat_axis);
  ReadIfThere(json, "tiled", &op.tiled);
  ReadIfThere(json, "root", &op.root);
  ReadIfThere(json, "source", &op.root);
  if (*kind == Kind::kPshuffle) ReadIfThere(json, "perm", &op.sources);
  if (*kind == Kind::kPpermute) ReadIfThere(json, "perm", &op.pairs);
  if (json.contains("op")) {
    const std::string reduce = json.at("op");
    const auto parsed = ParseReduceOp(reduce);
    if (!parsed.has_value())
      return Fault(absl::StrCat("no reduction ", reduce));
    op.reduce = *parsed;
  }
  return op;
}

absl::StatusOr<AxisCollective> ReadDirection(const AxisCollective& op,
                                             const Json& json) {
  if (!json.contains("transpose")) return op;
  const std::string convention = json.at("transpose");
  if (convention == "linear") return TransposeOf(op);
  if (convention == "sum") return TransposeOf(op, PsumTranspose::kSum);
  if (convention == "identity") {
    return TransposeOf(op, PsumTranspose::kIdentity);
  }
  return Fault(absl::StrCat("no transpose ", convention));
}

absl::StatusOr<CollectiveCase> ReadCase(const std::string& operation,
                                        const Json& json) {
  CollectiveCase read{.op = AxisCollective{}};
  json.at("name").get_to(read.name);
  for (const Json& axis : json.at("mesh")) {
    read.mesh.axes.push_back({axis.at(0), axis.at(1)});
  }
  if (absl::Status s = Validate(read.mesh); !s.ok()) return s;
  auto op = ReadOperation(operation, json);
  if (!op.ok()) return op.status();
  read.op = ReadDirection(*op, json);
  ReadIfThere(json, "tolerance", &read.tolerance);
  if (json.contains("error")) read.error = json.at("error");
  auto inputs = ReadTensors(json.at("inputs"));
  if (!inputs.ok()) return inputs.status();
  read.inputs = *std::move(inputs);
  if (!read.error.has_value()) {
    auto outputs = ReadTensors(json.at("outputs"));
    if (!outputs.ok()) return outputs.status();
    read.outputs = *std::move(outputs);
  }
  const auto ranks = static_cast<size_t>(read.mesh.WorldSize());
  const bool complete =
      read.inputs.size() == ranks &&
      (read.error.has_value() || read.outputs.size() == ranks);
  if (!complete) {
    return Fault(absl::StrCat("has tensors for another number than the ", ranks,
                              " ranks of its mesh"));
  }
  return read;
}

}  // namespace

absl::StatusOr<CaseFile> ReadCases(const CaseList& list) {
  CaseFile file{list.operation, {}};
  absl::Status status = ForEachCase(list, [&file](const Json& one) {
    auto read = ReadCase(file.operation, one);
    if (read.ok()) file.cases.push_back(*std::move(read));
    return read.status();
  });
  if (!status.ok()) return status;
  return file;
}

absl::StatusOr<CaseFile> ReadCaseFile(const std::string& path) {
  const auto list = ReadCaseList(path);
  return list.ok() ? ReadCases(*list) : list.status();
}

}  // namespace lockstep::conformance

#include "tests/conformance/collectives/case_file.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/user_file.h"
#include "client/collectives/shapes.h"
#include "tests/conformance/collectives/element_text.h"

namespace lockstep::conformance {
namespace {

using Json = nlohmann::json;
using Kind = AxisCollectiveKind;

absl::Status Fault(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<double> Real(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1.0 : 0.0;
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  return Fault(absl::StrCat("is no number: ", json.dump()));
}

absl::Status ReadElement(DType dtype, const Json& json, std::byte* to) {
  const bool wide = dtype == DType::kU64 || dtype == DType::kI64;
  if (wide && json.is_number_integer()) {
    StoreInteger(dtype, json.get<uint64_t>(), to);
    return absl::OkStatus();
  }
  if (json.is_array()) {
    if (json.size() != 2) return Fault("a complex number has two parts");
    const auto real = Real(json[0]), imaginary = Real(json[1]);
    if (!real.ok()) return real.status();
    if (!imaginary.ok()) return imaginary.status();
    StoreNumber(dtype, {*real, *imaginary}, to);
    return absl::OkStatus();
  }
  const auto real = Real(json);
  if (!real.ok()) return real.status();
  StoreNumber(dtype, *real, to);
  return absl::OkStatus();
}

absl::StatusOr<CaseTensor> ReadTensor(const Json& json) {
  const std::string name = json.at("dtype");
  const auto dtype = ParseDType(name);
  if (!dtype.has_value()) return Fault(absl::StrCat("no dtype ", name));
  CaseTensor tensor{{*dtype, json.at("shape")}, {}};
  const auto count = collectives::CheckedElements(tensor.type);
  if (!count.ok()) return count.status();
  const Json& data = json.at("data");
  if (data.size() != *count) {
    return Fault(absl::StrCat(collectives::Text(tensor.type), " has ", *count,
                              " elements, the data ", data.size()));
  }
  const size_t size = SizeOf(*dtype);
  tensor.bytes.resize(*count * size);
  for (size_t i = 0; i < *count; ++i) {
    absl::Status read = ReadElement(*dtype, data[i], &tensor.bytes[i * size]);
    if (!read.ok()) return read;
  }
  return tensor;
}

absl::StatusOr<RankTensors> ReadTensors(const Json& json) {
  RankTensors ranks;
  for (const Json& rank : json) {
    std::vector<CaseTensor>& tensors = ranks.emplace_back();
    for (const Json& tensor : rank) {
      auto read = ReadTensor(tensor);
      if (!read.ok()) return read.status();
      tensors.push_back(*std::move(read));
    }
  }
  return ranks;
}

template <typename T>
void ReadIfThere(const Json& json, const char* key, T* to) {
  if (json.contains(key)) json.at(key).get_to(*to);
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

absl::StatusOr<CaseFile> ReadCaseFile(const std::string& path) {
  constexpr size_t kBytesMax = size_t{1} << 30;
  auto text = ReadUserFile(path, kBytesMax);
  if (!text.ok()) return text.status();
  std::string where = path;
  try {  // of nlohmann-json: missing keys, other types
    const Json json = Json::parse(*text);
    CaseFile file{json.at("operation"), {}};
    for (const Json& one : json.at("cases")) {
      where = absl::StrCat(path, ", case ", one.at("name").dump());
      auto read = ReadCase(file.operation, one);
      if (!read.ok()) {
        return Fault(absl::StrCat(where, ": ", read.status().message()));
      }
      file.cases.push_back(*std::move(read));
    }
    return file;
  } catch (const Json::exception& error) {
    return Fault(absl::StrCat(where, ": ", error.what()));
  }
}

}  // namespace lockstep::conformance

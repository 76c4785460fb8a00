#include "tests/conformance/cases/case_tensor.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/collectives/shapes.h"
#include "tests/conformance/cases/element_text.h"

namespace lockstep::conformance {
namespace {

using Json = nlohmann::json;

absl::StatusOr<double> Real(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1.0 : 0.0;
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  return absl::InvalidArgumentError(
      absl::StrCat("is no number: ", json.dump()));
}

absl::Status ReadElement(DType dtype, const Json& json, std::byte* to) {
  const bool wide = dtype == DType::kU64 || dtype == DType::kI64;
  if (wide && json.is_number_integer()) {
    StoreInteger(dtype, json.get<uint64_t>(), to);
    return absl::OkStatus();
  }
  if (json.is_array()) {
    if (json.size() != 2) {
      return absl::InvalidArgumentError("a complex number has two parts");
    }
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

}  // namespace

absl::StatusOr<CaseTensor> ReadTensor(TensorType type, const Json& data) {
  CaseTensor tensor{std::move(type), {}};
  const auto count = collectives::CheckedElements(tensor.type);
  if (!count.ok()) return count.status();
  if (data.size() != *count) {
    return absl::InvalidArgumentError(
        absl::StrCat(collectives::Text(tensor.type), " has ", *count,
                     " elements, the data ", data.size()));
  }
  const DType dtype = tensor.type.dtype;
  const size_t size = SizeOf(dtype);
  tensor.bytes.resize(*count * size);
  for (size_t i = 0; i < *count; ++i) {
    absl::Status read = ReadElement(dtype, data[i], &tensor.bytes[i * size]);
    if (!read.ok()) return read;
  }
  return tensor;
}

std::string CompareTensors(const CaseTensor& got, const CaseTensor& wanted,
                           double tolerance) {
  const TensorType& type = got.type;
  if (!(type == wanted.type)) {
    return absl::StrCat("is ", collectives::Text(type), ", not ",
                        collectives::Text(wanted.type));
  }
  const size_t size = SizeOf(type.dtype);
  for (size_t i = 0; i * size < got.bytes.size(); ++i) {
    const std::byte* const a = &got.bytes[i * size];
    const std::byte* const b = &wanted.bytes[i * size];
    if (!IsNear(type.dtype, a, b, tolerance)) {
      return absl::StrCat("element ", i, " of ", collectives::Text(type),
                          " is ", ElementText(type.dtype, a), ", not ",
                          ElementText(type.dtype, b));
    }
  }
  return "";
}

}  // namespace lockstep::conformance

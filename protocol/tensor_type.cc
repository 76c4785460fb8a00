#include "protocol/tensor_type.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lockstep {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 40;

}  // namespace

std::string TypeText(const TensorType& type) {
  return absl::StrFormat("%s[%s]", Name(type.dtype),
                         absl::StrJoin(type.shape, ","));
}

std::string TypeText(const Activation& activation) {
  return absl::StrJoin(activation.parts, "+",
                       [](std::string* out, const TensorType& type) {
                         out->append(TypeText(type));
                       });
}

std::optional<TensorType> ParseTensorType(absl::string_view text) {
  const size_t open = text.find('[');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&text, "]")) {
    return std::nullopt;
  }
  const absl::string_view name = text.substr(0, open);
  const std::optional<DType> dtype =
      ParseDType(std::string_view(name.data(), name.size()));
  if (!dtype.has_value()) return std::nullopt;
  TensorType type{.dtype = *dtype};
  const absl::string_view extents = text.substr(open + 1);
  if (!extents.empty()) {
    for (const absl::string_view extent : absl::StrSplit(extents, ',')) {
      if (!absl::SimpleAtoi(extent, &type.shape.emplace_back())) {
        return std::nullopt;
      }
    }
  }
  if (!FaultOf(type).empty()) return std::nullopt;
  return type;
}

std::optional<Activation> ParseActivation(absl::string_view text) {
  Activation activation;
  for (const absl::string_view part : absl::StrSplit(text, '+')) {
    std::optional<TensorType> type =
        ParseTensorType(absl::StripAsciiWhitespace(part));
    if (!type.has_value()) return std::nullopt;
    activation.parts.push_back(*std::move(type));
  }
  return activation;
}

std::string FaultOf(const TensorType& type) {
  const int64_t size = static_cast<int64_t>(SizeOf(type.dtype));
  if (size == 0) return "has no dtype";
  if (!IsTransportDType(type.dtype)) {
    return "has a dtype that no communicator takes";
  }
  int64_t elements = 1;
  for (const int64_t extent : type.shape) {
    if (extent < 0) return "has a negative extent";
    if (extent > kBytesMax / size / std::max<int64_t>(elements, 1)) {
      return "is larger than 1TiB";
    }
    elements *= extent;
  }
  return "";
}

int64_t ElementsOf(const TensorType& type) {
  int64_t elements = 1;
  for (const int64_t extent : type.shape) elements *= extent;
  return elements;
}

int64_t BytesOf(const TensorType& type) {
  return ElementsOf(type) * static_cast<int64_t>(SizeOf(type.dtype));
}

int64_t BytesOf(const Activation& activation) {
  int64_t bytes = 0;
  for (const TensorType& part : activation.parts) bytes += BytesOf(part);
  return bytes;
}

Activation GradientOf(const Activation& activation) {
  Activation gradient;
  for (const TensorType& part : activation.parts) {
    if (IsFloat(part.dtype)) gradient.parts.push_back(part);
  }
  return gradient;
}

}  // namespace lockstep

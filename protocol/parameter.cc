#include "protocol/parameter.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/utf8.h"

namespace lockstep {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

template <typename... Args>
absl::Status Malformed(const Parameter& parameter,
                       const absl::FormatSpec<Args...>& format,
                       const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter ", absl::Utf8SafeCEscape(parameter.name), ": ",
                   absl::StrFormat(format, args...)));
}

absl::Status ValidateName(const Parameter& parameter) {
  const std::string& name = parameter.name;
  if (name.empty()) {
    return absl::InvalidArgumentError("a parameter has an empty name");
  }
  if (name.size() > kParameterNameBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "parameter %s...: the name has %d bytes, the limit is %d",
        absl::Utf8SafeCEscape(name.substr(0, 40)), name.size(),
        kParameterNameBytesMax));
  }
  if (!IsPrintableUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "parameter \"%s\": the name is not UTF-8 without control characters",
        absl::CEscape(name)));
  }
  return absl::OkStatus();
}

absl::Status ValidateShape(const Parameter& parameter) {
  const int64_t elements_max =
      kParameterBytesMax / static_cast<int64_t>(SizeOf(parameter.dtype));
  int64_t elements = 1;
  for (const int64_t extent : parameter.shape) {
    if (extent < 0) {
      return Malformed(parameter, "shape %s has a negative extent",
                       ShapeText(parameter.shape));
    }
    // A shape with an extent of 0 has the same limit for the others.
    if (extent > elements_max / std::max<int64_t>(elements, 1)) {
      return Malformed(parameter, "shape %s is more than %d bytes of %s",
                       ShapeText(parameter.shape), kParameterBytesMax,
                       Name(parameter.dtype));
    }
    elements *= extent;
  }
  return absl::OkStatus();
}

absl::Status ValidateAxes(const Parameter& parameter, const Mesh& mesh,
                          absl::string_view field,
                          const std::vector<std::string>& axes) {
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (mesh.AxisIndex(*axis) < 0) {
      return Malformed(parameter, "%s names %s, which is no axis of mesh %s",
                       field, absl::Utf8SafeCEscape(*axis), ToString(mesh));
    }
    if (std::find(axes.begin(), axis, *axis) != axis) {
      return Malformed(parameter, "%s names %s twice", field, *axis);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateReplicas(const Parameter& parameter) {
  for (const std::string& axis : parameter.replicated_over) {
    const bool reduced = parameter.axes.empty() ||
                         std::find(parameter.axes.begin(), parameter.axes.end(),
                                   axis) != parameter.axes.end();
    if (reduced) {
      return Malformed(parameter,
                       "replicated_over names %s, over which it is reduced",
                       axis);
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ElementsOf(const Parameter& parameter) {
  int64_t elements = 1;
  for (const int64_t extent : parameter.shape) elements *= extent;
  return elements;
}

std::string Describe(const Parameter& parameter) {
  std::string text = absl::StrFormat("%s %s %s", ShapeText(parameter.shape),
                                     Name(parameter.dtype), Name(parameter.op));
  if (!parameter.axes.empty()) {
    absl::StrAppend(&text, " over ", absl::StrJoin(parameter.axes, ","));
  }
  if (!parameter.replicated_over.empty()) {
    absl::StrAppend(&text, " replicated over ",
                    absl::StrJoin(parameter.replicated_over, ","));
  }
  if (parameter.stage >= 0) {
    absl::StrAppend(&text, " of stage ", parameter.stage);
  }
  return text;
}

absl::Status Validate(const Parameter& parameter, const Mesh& mesh) {
  if (absl::Status name = ValidateName(parameter); !name.ok()) return name;
  if (!IsFloat(parameter.dtype)) {
    return Malformed(parameter, "dtype %s (%d) is none of f16, bf16, f32, f64",
                     Name(parameter.dtype), static_cast<int>(parameter.dtype));
  }
  if (parameter.op != ReduceOp::kSum && parameter.op != ReduceOp::kMean) {
    return Malformed(parameter, "op %s (%d) is neither sum nor mean",
                     Name(parameter.op), static_cast<int>(parameter.op));
  }
  if (absl::Status shape = ValidateShape(parameter); !shape.ok()) return shape;
  if (parameter.stage < -1) {
    return Malformed(parameter, "stage is %d", parameter.stage);
  }
  absl::Status axes = ValidateAxes(parameter, mesh, "axes", parameter.axes);
  axes.Update(ValidateAxes(parameter, mesh, "replicated_over",
                           parameter.replicated_over));
  axes.Update(ValidateReplicas(parameter));
  return axes;
}

}  // namespace lockstep

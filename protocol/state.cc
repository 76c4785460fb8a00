#include "protocol/state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/utf8.h"
#include "protocol/parameter.h"

namespace lockstep {
namespace {

// The key of a safetensors header that is no tensor.
constexpr char kReservedName[] = "__metadata__";

class StateCheck {
 public:
  StateCheck(const StateSpec& spec, const Mesh& mesh)
      : spec_(spec), mesh_(mesh) {}

  absl::StatusOr<StateSpec> Run() {
    absl::Status status = CheckStateName(spec_.name);
    if (status.ok()) status = CheckType();
    StateSpec made = spec_;
    made.cuts.clear();
    for (size_t i = 0; status.ok() && i < spec_.cuts.size(); ++i) {
      status = AddCut(spec_.cuts[i], &made);
    }
    if (status.ok()) status = CheckSlice();
    if (!status.ok()) return status;
    std::sort(
        made.cuts.begin(), made.cuts.end(),
        [](const StateCut& a, const StateCut& b) { return a.dim < b.dim; });
    std::erase_if(made.cuts,
                  [](const StateCut& cut) { return cut.axes.empty(); });
    return made;
  }

 private:
  template <typename... Args>
  absl::Status Refuse(const absl::FormatSpec<Args...>& format,
                      const Args&... args) const {
    return absl::InvalidArgumentError(
        absl::StrCat("state \"", absl::Utf8SafeCEscape(spec_.name),
                     "\": ", absl::StrFormat(format, args...)));
  }

  std::string ShapeText() const {
    return absl::StrCat("[", absl::StrJoin(spec_.shape, ","), "]");
  }

  absl::Status CheckType() {
    if (SizeOf(spec_.dtype) == 0) {
      return Refuse("dtype %d is unknown", static_cast<int>(spec_.dtype));
    }
    if (!IsStateDType(spec_.dtype)) {
      return Refuse("checkpoints cannot have %s", Name(spec_.dtype));
    }
    if (spec_.shape.size() > size_t{kStateDimsMax}) {
      return Refuse("%d dimensions; state has at most %d", spec_.shape.size(),
                    kStateDimsMax);
    }
    int64_t bytes = static_cast<int64_t>(SizeOf(spec_.dtype));
    for (const int64_t extent : spec_.shape) {
      if (extent < 0) return Refuse("the block %s", ShapeText());
      const int64_t at_least_one = std::max<int64_t>(extent, 1);
      if (at_least_one > kStateBytesMax / bytes) {
        return Refuse("the block %s has more than %d bytes of %s", ShapeText(),
                      kStateBytesMax, Name(spec_.dtype));
      }
      bytes *= at_least_one;
      elements_ *= extent;
    }
    return absl::OkStatus();
  }

  absl::Status AddCut(const StateCut& given, StateSpec* made) const {
    const int dims = static_cast<int>(spec_.shape.size());
    StateCut cut = given;
    if (cut.dim < 0) cut.dim += dims;
    if (cut.dim < 0 || cut.dim >= dims) {
      return Refuse("dim %d of a tensor with %d dimensions", given.dim, dims);
    }
    for (const StateCut& other : made->cuts) {
      if (other.dim == cut.dim) return Refuse("dim %d is cut twice", cut.dim);
    }
    made->cuts.push_back(std::move(cut));
    const std::vector<std::string>& axes = made->cuts.back().axes;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (mesh_.AxisIndex(axes[i]) < 0) {
        return Refuse("dim %d is cut over %s, which is no axis of mesh %s",
                      made->cuts.back().dim, absl::Utf8SafeCEscape(axes[i]),
                      ToString(mesh_));
      }
      for (const StateCut& other : made->cuts) {
        const auto end = &other == &made->cuts.back()
                             ? axes.begin() + static_cast<int>(i)
                             : other.axes.end();
        if (std::find(other.axes.begin(), end, axes[i]) == end) continue;
        return Refuse("axis %s cuts dim %d and dim %d", axes[i], other.dim,
                      made->cuts.back().dim);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckSlice() const {
    if (!spec_.sliced_like.empty()) {
      if (spec_.slice) {
        return Refuse("has a slice, and is sliced like a parameter");
      }
      if (spec_.sliced_like.size() > kParameterNameBytesMax ||
          !IsPrintableUtf8(spec_.sliced_like)) {
        return Refuse("is sliced like \"%s\", which names no parameter",
                      absl::CEscape(spec_.sliced_like.substr(0, 40)));
      }
    }
    if (!spec_.slice) return absl::OkStatus();
    const StateSlice& slice = *spec_.slice;
    if (slice.offset >= 0 && slice.count >= 0 && slice.offset <= elements_ &&
        slice.count <= elements_ - slice.offset) {
      return absl::OkStatus();
    }
    return Refuse("the slice of %d elements from %d on is not in the block %s",
                  slice.count, slice.offset, ShapeText());
  }

  const StateSpec& spec_;
  const Mesh& mesh_;
  int64_t elements_ = 1;
};

}  // namespace

bool IsStateDType(DType dtype) {
  return SizeOf(dtype) > 0 && dtype != DType::kC128;
}

absl::Status CheckStateName(const std::string& name) {
  if (name == kReservedName) {
    return absl::InvalidArgumentError(
        absl::StrCat("state is called ", kReservedName,
                     ", a name that safetensors reserves"));
  }
  if (!name.empty() && name.size() <= kStateNameBytesMax &&
      IsPrintableUtf8(name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "state is called \"%s\": names are UTF-8 without control characters, 1 "
      "to %d bytes",
      absl::CEscape(name.substr(0, 40)), kStateNameBytesMax));
}

absl::StatusOr<StateSpec> Normalized(const StateSpec& spec, const Mesh& mesh) {
  return StateCheck(spec, mesh).Run();
}

std::string Describe(const StateSpec& spec) {
  std::vector<std::string> extents;
  for (const int64_t extent : spec.shape) {
    extents.push_back(absl::StrCat(extent));
  }
  std::string rest;
  for (const StateCut& cut : spec.cuts) {
    extents[static_cast<size_t>(cut.dim)].assign(1, '*');
    absl::StrAppend(&rest, ", dim ", cut.dim, " over ",
                    absl::StrJoin(cut.axes, " "));
  }
  if (!spec.sliced_like.empty()) {
    absl::StrAppend(&rest, ", sliced like ", spec.sliced_like);
  }
  return absl::StrFormat("%s[%s]%s", Name(spec.dtype),
                         absl::StrJoin(extents, ","), rest);
}

std::string Describe(const StateSlice& slice) {
  if (slice.count == 0) return "no elements";
  return absl::StrFormat("elements %d-%d", slice.offset,
                         slice.offset + slice.count - 1);
}

}  // namespace lockstep

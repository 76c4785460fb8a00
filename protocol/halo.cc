#include "protocol/halo.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/utf8.h"

namespace lockstep {
namespace {

template <typename... Args>
absl::Status MalformedTensor(size_t tensor,
                             const absl::FormatSpec<Args...>& format,
                             const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", tensor, ": ", absl::StrFormat(format, args...)));
}

std::string ExtentsText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string WidthText(int64_t width) {
  return width == kWholeField ? "all" : absl::StrCat(width);
}

bool IsEdge(HaloEdge edge) {
  return std::find(std::begin(kAllHaloEdges), std::end(kAllHaloEdges), edge) !=
         std::end(kAllHaloEdges);
}

template <typename Integer>
bool FitsIn(double value) {
  // 2^63 and 2^64 are doubles, the largest integers below them are not.
  return value >= static_cast<double>(std::numeric_limits<Integer>::min()) &&
         value < std::ldexp(1.0, std::numeric_limits<Integer>::digits);
}

// The largest number of a dtype with a fraction; c64 and c128: of their parts.
double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3: return 448;
    case DType::kF8E5M2: return 57344;
    case DType::kF16: return 65504;
    case DType::kBF16: return std::ldexp(255.0, 120);
    case DType::kF32:
    case DType::kC64: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

class TensorCheck {
 public:
  TensorCheck(size_t number, const HaloTensor& tensor, const Mesh& mesh)
      : number_(number), tensor_(tensor), mesh_(mesh) {}

  absl::StatusOr<HaloTensor> Run() {
    absl::Status status = CheckType();
    HaloTensor made{tensor_.dtype, tensor_.shape, {}};
    for (size_t i = 0; status.ok() && i < tensor_.dims.size(); ++i) {
      status = AddDim(tensor_.dims[i], &made);
    }
    if (status.ok()) status = CheckSize(made);
    if (!status.ok()) return status;
    std::sort(made.dims.begin(), made.dims.end(),
              [](const HaloDim& a, const HaloDim& b) { return a.dim < b.dim; });
    std::erase_if(made.dims, [](const HaloDim& dim) {
      return dim.axis.empty() && dim.low == 0 && dim.high == 0;
    });
    return made;
  }

 private:
  absl::Status CheckType() const {
    if (SizeOf(tensor_.dtype) == 0) {
      return MalformedTensor(number_, "dtype %d is unknown",
                             static_cast<int>(tensor_.dtype));
    }
    if (tensor_.shape.size() > size_t{kHaloDimsMax}) {
      return MalformedTensor(number_, "%d dimensions; at most %d are exchanged",
                             tensor_.shape.size(), kHaloDimsMax);
    }
    for (const int64_t extent : tensor_.shape) {
      if (extent >= 1) continue;
      return MalformedTensor(number_,
                             "the block %s is empty: every rank needs at least "
                             "one cell in each dimension",
                             ExtentsText(tensor_.shape));
    }
    return absl::OkStatus();
  }

  absl::Status AddDim(const HaloDim& given, HaloTensor* made) const {
    const int dims = static_cast<int>(tensor_.shape.size());
    HaloDim dim = given;
    if (dim.dim < 0) dim.dim += dims;
    if (dim.dim < 0 || dim.dim >= dims) {
      return MalformedTensor(number_, "dim %d of a tensor with %d dimensions",
                             given.dim, dims);
    }
    for (const HaloDim& other : made->dims) {
      if (other.dim == dim.dim) {
        return MalformedTensor(number_, "dim %d is given twice", dim.dim);
      }
      if (!dim.axis.empty() && other.axis == dim.axis) {
        return MalformedTensor(number_, "axis %s cuts dim %d and dim %d",
                               dim.axis, other.dim, dim.dim);
      }
    }
    if (!dim.axis.empty() && mesh_.AxisIndex(dim.axis) < 0) {
      return MalformedTensor(
          number_, "dim %d is cut over %s, which is no axis of mesh %s",
          dim.dim, absl::Utf8SafeCEscape(dim.axis), ToString(mesh_));
    }
    const bool is_whole = dim.low == kWholeField || dim.high == kWholeField;
    if (is_whole && dim.edge != HaloEdge::kNone) {
      return MalformedTensor(number_,
                             "dim %d: a width of the whole field has edge "
                             "none, not %s",
                             dim.dim, Name(dim.edge));
    }
    if (dim.low < 0 || dim.high < 0) {
      return MalformedTensor(number_, "dim %d has the widths low %d, high %d",
                             dim.dim, dim.low, dim.high);
    }
    if (!IsEdge(dim.edge)) {
      return MalformedTensor(number_, "dim %d: edge %d is unknown", dim.dim,
                             static_cast<int>(dim.edge));
    }
    if (dim.edge != HaloEdge::kConstant) {
      dim.constant = 0;
    } else if (!IsHaloConstant(tensor_.dtype, dim.constant)) {
      return MalformedTensor(
          number_, "dim %d: the constant %g is no finite number of %s", dim.dim,
          dim.constant, Name(tensor_.dtype));
    }
    made->dims.push_back(std::move(dim));
    return absl::OkStatus();
  }

  // The padded block must be addressable.
  absl::Status CheckSize(const HaloTensor& made) const {
    std::vector<int64_t> padded = made.shape;
    bool fits = true;
    for (const HaloDim& dim : made.dims) {
      int64_t& extent = padded[dim.dim];
      // The size of the whole is known to the compiler of the plan only.
      const int64_t low = dim.low == kWholeField ? 0 : dim.low;
      const int64_t high = dim.high == kWholeField ? 0 : dim.high;
      fits = fits && low <= kHaloBytesMax && high <= kHaloBytesMax &&
             extent <= kHaloBytesMax;
      if (fits) extent += low + high;
    }
    int64_t bytes = static_cast<int64_t>(SizeOf(made.dtype));
    for (const int64_t extent : padded) {
      fits = fits && extent <= kHaloBytesMax / bytes;
      if (fits) bytes *= extent;
    }
    if (fits) return absl::OkStatus();
    return MalformedTensor(
        number_, "the block %s with its halos has more than %d bytes of %s",
        ExtentsText(made.shape), kHaloBytesMax, Name(made.dtype));
  }

  const size_t number_;
  const HaloTensor& tensor_;
  const Mesh& mesh_;
};

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name.size() > kHaloNameBytesMax ||
      !IsPrintableUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a halo exchange is called \"%s\": names are UTF-8 without control "
        "characters, 1 to %d bytes",
        absl::CEscape(name.substr(0, 40)), kHaloNameBytesMax));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HaloSpec> Normalized(const HaloSpec& spec, const Mesh& mesh) {
  if (absl::Status name = CheckName(spec.name); !name.ok()) return name;
  const auto refuse = [&spec](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("halo ", absl::Utf8SafeCEscape(spec.name), ": ", why));
  };
  if (spec.tensors.empty() || spec.tensors.size() > kHaloTensorsMax) {
    return refuse(absl::StrFormat("%d tensors; an exchange has 1 to %d",
                                  spec.tensors.size(), kHaloTensorsMax));
  }
  HaloSpec made{spec.name, {}};
  for (size_t i = 0; i < spec.tensors.size(); ++i) {
    auto tensor = TensorCheck(i, spec.tensors[i], mesh).Run();
    if (!tensor.ok()) return refuse(tensor.status().message());
    made.tensors.push_back(*std::move(tensor));
  }
  return made;
}

bool IsHaloConstant(DType dtype, double constant) {
  if (!std::isfinite(constant)) return false;
  const bool is_whole = std::trunc(constant) == constant;
  switch (dtype) {
    case DType::kBool: return constant == 0 || constant == 1;
    case DType::kU8: return is_whole && FitsIn<uint8_t>(constant);
    case DType::kI8: return is_whole && FitsIn<int8_t>(constant);
    case DType::kI16: return is_whole && FitsIn<int16_t>(constant);
    case DType::kU16: return is_whole && FitsIn<uint16_t>(constant);
    case DType::kI32: return is_whole && FitsIn<int32_t>(constant);
    case DType::kU32: return is_whole && FitsIn<uint32_t>(constant);
    case DType::kI64: return is_whole && FitsIn<int64_t>(constant);
    case DType::kU64: return is_whole && FitsIn<uint64_t>(constant);
    default: return std::abs(constant) <= LargestOf(dtype);
  }
}

std::string Describe(const HaloTensor& tensor) {
  std::vector<std::string> extents;
  for (const int64_t extent : tensor.shape) {
    extents.push_back(absl::StrCat(extent));
  }
  std::string dims;
  for (const HaloDim& dim : tensor.dims) {
    absl::StrAppend(&dims, dims.empty() ? ": " : "; ", "dim ", dim.dim);
    if (!dim.axis.empty()) {
      extents[dim.dim].assign(1, '*');
      absl::StrAppend(&dims, " over ", dim.axis);
    }
    absl::StrAppend(&dims, ", low ", WidthText(dim.low), ", high ",
                    WidthText(dim.high));
    absl::StrAppendFormat(&dims, ", %s", Name(dim.edge));
    if (dim.edge == HaloEdge::kConstant) {
      absl::StrAppendFormat(&dims, " %.17g", dim.constant);
    }
  }
  return absl::StrFormat("%s[%s]%s", Name(tensor.dtype),
                         absl::StrJoin(extents, ","), dims);
}

}  // namespace lockstep

#include "tests/client/halo/random_halos.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "protocol/halo.h"
#include "tests/conformance/cases/element_text.h"

namespace lockstep::halo_model {
namespace {

// Sums of integers up to it are exact.
double LargestExact(DType dtype) {
  switch (dtype) {
    case DType::kF8E5M2: return 8;
    case DType::kF8E4M3: return 16;
    case DType::kU8:
    case DType::kI8: return 127;
    case DType::kBF16: return 256;
    case DType::kF16: return 2048;
    default: return 30000;
  }
}

bool IsUnsigned(DType dtype) {
  return dtype == DType::kBool || dtype == DType::kU8 || dtype == DType::kU16 ||
         dtype == DType::kU32 || dtype == DType::kU64;
}

bool IsComplexType(DType dtype) {
  return dtype == DType::kC64 || dtype == DType::kC128;
}

}  // namespace

std::vector<HaloTensor> HaloJob::TensorsOf(size_t exchange,
                                           size_t tensor) const {
  std::vector<HaloTensor> tensors;
  for (const auto& specs : declared) {
    tensors.push_back(specs[exchange].tensors[tensor]);
  }
  return tensors;
}

std::string HaloJob::Describe() const {
  std::string text = ToString(mesh);
  for (size_t e = 0; e < exchanges(); ++e) {
    absl::StrAppend(&text, "\n  ", declared[0][e].name);
    for (size_t t = 0; t < declared[0][e].tensors.size(); ++t) {
      absl::StrAppend(
          &text, "\n    ",
          lockstep::Describe(Normalized(declared[0][e], mesh)->tensors[t]),
          "; blocks");
      for (const HaloTensor& tensor : TensorsOf(e, t)) {
        absl::StrAppend(&text, " ");
        for (const int64_t extent : tensor.shape) {
          absl::StrAppend(&text, extent, "x");
        }
        text.back() = text.back() == 'x' ? ',' : text.back();
      }
    }
  }
  return text;
}

HaloJob RandomHalos::DrawJob(const DrawLimits& limits) {
  HaloJob job{.mesh = DrawMesh()};
  job.declared.resize(job.mesh.WorldSize());
  const int exchanges = 1 + Draw(limits.exchanges_max);
  for (int e = 0; e < exchanges; ++e) {
    for (auto& specs : job.declared) specs.push_back({absl::StrCat("h", e)});
    const int tensors = 1 + Draw(3);
    for (int t = 0; t < tensors; ++t) {
      const std::vector<HaloTensor> drawn = DrawTensor(job.mesh, limits);
      for (size_t r = 0; r < drawn.size(); ++r) {
        job.declared[r].back().tensors.push_back(drawn[r]);
      }
    }
  }
  return job;
}

Mesh RandomHalos::DrawMesh() {
  static const Mesh kMeshes[] = {
      {{{"x", 1}}},           {{{"x", 2}}},
      {{{"x", 3}}},           {{{"x", 4}}},
      {{{"x", 5}}},           {{{"x", 7}}},
      {{{"x", 8}}},           {{{"x", 2}, {"y", 2}}},
      {{{"x", 3}, {"y", 2}}}, {{{"x", 1}, {"y", 3}}},
      {{{"x", 2}, {"y", 4}}}, {{{"x", 2}, {"y", 2}, {"z", 2}}}};
  return kMeshes[Draw(std::size(kMeshes))];
}

std::vector<HaloTensor> RandomHalos::DrawTensor(const Mesh& mesh,
                                                const DrawLimits& limits) {
  const int dims = Draw(30) == 0 ? 0 : Draw(12) == 0 ? 4 : 1 + Draw(3);
  HaloTensor common{.dtype = static_cast<DType>(0)};
  common.dtype = limits.dtype.value_or(
      kAllDTypes[Draw(static_cast<int>(std::size(kAllDTypes)))]);
  std::vector<HaloTensor> tensors(mesh.WorldSize(), common);
  std::vector<int> axes(mesh.axes.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random_);
  const int extent_max = dims == 1 ? 6 : dims == 2 ? 4 : dims == 3 ? 3 : 2;
  for (int d = 0; d < dims; ++d) {
    const bool cut = !axes.empty() && Draw(5) > 1;
    int axis = -1;
    if (cut) {
      axis = axes.back();
      axes.pop_back();
    }
    std::vector<int64_t> sizes(cut ? mesh.axes[axis].size : 1);
    const int size_max = Draw(4) == 0 ? 1 : extent_max;
    for (int64_t& size : sizes) size = 1 + Draw(size_max);
    if (d == dims - 1) {
      for (int64_t& size : sizes) size *= limits.longer_rows;
    }
    for (size_t r = 0; r < tensors.size(); ++r) {
      const int block = cut ? mesh.CoordinatesOf(static_cast<int>(r))[axis] : 0;
      tensors[r].shape.push_back(sizes[block]);
    }
    HaloDim dim = DrawDim(
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), dims, limits);
    dim.dim = Draw(3) == 0 ? d - dims : d;
    if (cut) dim.axis = mesh.axes[axis].name;
    common.dims.push_back(dim);
  }
  std::shuffle(common.dims.begin(), common.dims.end(), random_);
  for (HaloTensor& tensor : tensors) tensor.dims = common.dims;
  return tensors;
}

HaloDim RandomHalos::DrawDim(int64_t size, int dims, const DrawLimits& limits) {
  HaloDim dim;
  dim.edge = limits.edge.value_or(
      kAllHaloEdges[Draw(static_cast<int>(std::size(kAllHaloEdges)))]);
  const int width_max = dims == 1 ? 9 : dims == 4 ? 1 : 6 - dims;
  if (Draw(4) > 0) dim.low = Draw(width_max + 1);
  if (Draw(4) > 0) dim.high = Draw(width_max + 1);
  if (dim.edge == HaloEdge::kReflect) {
    dim.low = std::min(dim.low, size - 1);
    dim.high = std::min(dim.high, size - 1);
  }
  if (dim.edge == HaloEdge::kConstant) dim.constant = Draw(2);
  return dim;
}

ExchangeValues RandomHalos::DrawValues(const HaloJob& job, size_t exchange) {
  ExchangeValues values;
  for (ExchangeBytes* bytes :
       {&values.blocks, &values.padded, &values.padded_gradients,
        &values.block_gradients}) {
    bytes->resize(job.ranks());
  }
  for (size_t t = 0; t < job.declared[0][exchange].tensors.size(); ++t) {
    const std::vector<HaloTensor> tensors = job.TensorsOf(exchange, t);
    const DType dtype = tensors[0].dtype;
    const size_t size = SizeOf(dtype);
    values.models.push_back(ModelOf(job.mesh, tensors));
    const TensorModel& model = values.models.back();
    for (int r = 0; r < job.ranks(); ++r) {
      Bytes& block =
          values.blocks[r].emplace_back(CellsOf(tensors[r].shape) * size);
      for (std::byte& byte : block) byte = static_cast<std::byte>(random_());
    }
    for (int r = 0; r < job.ranks(); ++r) {
      Bytes& padded =
          values.padded[r].emplace_back(model.padded[r].size() * size);
      std::byte* to = padded.data();
      for (const CellSource& source : model.padded[r]) {
        if (source.rank < 0) {
          conformance::StoreNumber(dtype, source.constant, to);
        } else {
          std::memcpy(to, &values.blocks[source.rank][t][source.cell * size],
                      size);
        }
        to += size;
      }
    }
    DrawGradients(dtype, model, tensors, &values);
  }
  return values;
}

void RandomHalos::DrawGradients(DType dtype, const TensorModel& model,
                                const std::vector<HaloTensor>& tensors,
                                ExchangeValues* values) {
  const size_t size = SizeOf(dtype);
  struct CellSum {
    std::complex<double> sum;
    double size = 0;
  };
  std::vector<std::vector<CellSum>> sums;
  for (const HaloTensor& tensor : tensors) {
    sums.emplace_back(CellsOf(tensor.shape));
  }
  for (size_t r = 0; r < tensors.size(); ++r) {
    Bytes& padded =
        values->padded_gradients[r].emplace_back(model.padded[r].size() * size);
    std::byte* to = padded.data();
    for (const CellSource& source : model.padded[r]) {
      const double real = IsUnsigned(dtype) ? Draw(3) : Draw(5) - 2;
      std::complex<double> gradient(dtype == DType::kBool ? Draw(6) == 0 : real,
                                    IsComplexType(dtype) ? Draw(5) - 2 : 0);
      if (source.rank >= 0) {
        CellSum& sum = sums[source.rank][source.cell];
        if (sum.size + 4 > LargestExact(dtype)) gradient = 0;
        sum.size += std::abs(gradient.real()) + std::abs(gradient.imag());
        sum.sum += gradient;
      }
      conformance::StoreNumber(dtype, gradient, to);
      to += size;
    }
  }
  for (size_t r = 0; r < tensors.size(); ++r) {
    Bytes& block =
        values->block_gradients[r].emplace_back(sums[r].size() * size);
    for (size_t i = 0; i < sums[r].size(); ++i) {
      conformance::StoreNumber(dtype, sums[r][i].sum, &block[i * size]);
    }
  }
}

template <typename T>
Bytes RandomHalos::DrawReals(int64_t cells) {
  Bytes bytes(cells * sizeof(T));
  for (int64_t i = 0; i < cells; ++i) {
    const T value =
        static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random_));
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return bytes;
}
template Bytes RandomHalos::DrawReals<float>(int64_t);
template Bytes RandomHalos::DrawReals<double>(int64_t);

}  // namespace lockstep::halo_model

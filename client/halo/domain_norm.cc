#include "lockstep/domain_norm.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 62;

// One channel of one sample: a contiguous run of `cells` elements.
struct NormRow {
  size_t offset, set, channel;
};

template <typename Visit>
void ForEachRow(const NormLayout& layout, Visit visit) {
  if (layout.cells == 0) return;
  const auto batch = static_cast<size_t>(layout.batch);
  const auto channels = static_cast<size_t>(layout.channels);
  const auto cells = static_cast<size_t>(layout.cells);
  const auto groups = static_cast<size_t>(layout.groups);
  for (size_t b = 0; b < batch; ++b) {
    for (size_t c = 0; c < channels; ++c) {
      const size_t set = layout.kind == NormKind::kBatch
                             ? c
                             : b * groups + c / (channels / groups);
      visit(NormRow{(b * channels + c) * cells, set, c});
    }
  }
}

absl::Status CheckSize(const char* name, size_t size, int64_t wanted) {
  if (size == static_cast<size_t>(wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has ", size, " elements; the layout has ", wanted));
}

// NormSets has accepted the layout.
int64_t Elements(const NormLayout& layout) {
  return layout.batch * layout.channels * layout.cells;
}

template <typename T>
absl::Status CheckBlock(const NormLayout& layout, size_t x,
                        absl::Span<const NormMoments> total,
                        const NormAffine<T>& affine) {
  const auto sets = NormSets(layout);
  if (!sets.ok()) return sets.status();
  absl::Status status = CheckSize("x", x, Elements(layout));
  status.Update(CheckSize("total", total.size(), *sets));
  if (!affine.gamma.empty()) {
    status.Update(CheckSize("gamma", affine.gamma.size(), layout.channels));
  }
  if (!affine.beta.empty()) {
    status.Update(CheckSize("beta", affine.beta.size(), layout.channels));
  }
  return status;
}

// Two passes; the second corrects what rounding the mean has cost.
template <typename T>
NormMoments MomentsOf(absl::Span<const T> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const T value : values) sum += value;
  const double mean = sum / count;
  double rest = 0, squares = 0;
  for (const T value : values) {
    const double deviation = value - mean;
    rest += deviation;
    squares += deviation * deviation;
  }
  return {count, mean + rest / count,
          std::max(squares - rest * rest / count, 0.0)};
}

// What all elements of a row share.
struct RowScale {
  double mean, rstd, gamma, beta;
};

template <typename T>
RowScale ScaleOf(const NormRow& row, absl::Span<const NormMoments> total,
                 const NormAffine<T>& affine) {
  const NormMoments& moments = total[row.set];
  return {moments.mean, 1 / std::sqrt(moments.Variance() + affine.epsilon),
          affine.gamma.empty() ? 1.0 : affine.gamma[row.channel],
          affine.beta.empty() ? 0.0 : affine.beta[row.channel]};
}

template <typename T>
absl::StatusOr<std::vector<NormMoments>> MomentsOfBlock(
    const NormLayout& layout, absl::Span<const T> x) {
  const auto sets = NormSets(layout);
  if (!sets.ok()) return sets.status();
  absl::Status status = CheckSize("x", x.size(), Elements(layout));
  if (!status.ok()) return status;
  std::vector<NormMoments> moments(static_cast<size_t>(*sets));
  ForEachRow(layout, [&](const NormRow& row) {
    const auto values =
        x.subspan(row.offset, static_cast<size_t>(layout.cells));
    moments[row.set] = Merge(moments[row.set], MomentsOf(values));
  });
  return moments;
}

template <typename T>
absl::Status Forward(const NormLayout& layout, absl::Span<const T> x,
                     absl::Span<const NormMoments> total,
                     const NormAffine<T>& affine, absl::Span<T> y) {
  absl::Status status = CheckBlock(layout, x.size(), total, affine);
  status.Update(CheckSize("y", y.size(), static_cast<int64_t>(x.size())));
  if (!status.ok()) return status;
  ForEachRow(layout, [&](const NormRow& row) {
    const auto [mean, rstd, gamma, beta] = ScaleOf(row, total, affine);
    const size_t end = row.offset + static_cast<size_t>(layout.cells);
    for (size_t i = row.offset; i < end; ++i) {
      y[i] = static_cast<T>((x[i] - mean) * rstd * gamma + beta);
    }
  });
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<NormGradientSums> GradientSumsOf(
    const NormLayout& layout, absl::Span<const T> x, absl::Span<const T> dy,
    absl::Span<const NormMoments> total, const NormAffine<T>& affine) {
  absl::Status status = CheckBlock(layout, x.size(), total, affine);
  status.Update(CheckSize("dy", dy.size(), static_cast<int64_t>(x.size())));
  if (!status.ok()) return status;
  const auto channels = static_cast<size_t>(layout.channels);
  NormGradientSums sums{std::vector<double>(2 * total.size()),
                        std::vector<double>(channels),
                        std::vector<double>(channels)};
  ForEachRow(layout, [&](const NormRow& row) {
    const auto [mean, rstd, gamma, beta] = ScaleOf(row, total, affine);
    double dy_sum = 0, dy_h_sum = 0;
    const size_t end = row.offset + static_cast<size_t>(layout.cells);
    for (size_t i = row.offset; i < end; ++i) {
      dy_sum += dy[i];
      dy_h_sum += dy[i] * ((x[i] - mean) * rstd);
    }
    sums.sets[2 * row.set] += gamma * dy_sum;
    sums.sets[2 * row.set + 1] += gamma * dy_h_sum;
    sums.gamma[row.channel] += dy_h_sum;
    sums.beta[row.channel] += dy_sum;
  });
  return sums;
}

template <typename T>
absl::Status Backward(const NormLayout& layout, absl::Span<const T> x,
                      absl::Span<const T> dy,
                      absl::Span<const NormMoments> total,
                      const NormAffine<T>& affine,
                      absl::Span<const double> sets, absl::Span<T> dx) {
  absl::Status status = CheckBlock(layout, x.size(), total, affine);
  const auto elements = static_cast<int64_t>(x.size());
  status.Update(CheckSize("dy", dy.size(), elements));
  status.Update(CheckSize("dx", dx.size(), elements));
  status.Update(
      CheckSize("sets", sets.size(), 2 * static_cast<int64_t>(total.size())));
  if (!status.ok()) return status;
  ForEachRow(layout, [&](const NormRow& row) {
    const auto [mean, rstd, gamma, beta] = ScaleOf(row, total, affine);
    const double count = total[row.set].count;
    const double dy_mean = sets[2 * row.set] / count;
    const double dy_h_mean = sets[2 * row.set + 1] / count;
    const size_t end = row.offset + static_cast<size_t>(layout.cells);
    for (size_t i = row.offset; i < end; ++i) {
      const double h = (x[i] - mean) * rstd;
      dx[i] = static_cast<T>(rstd * (gamma * dy[i] - dy_mean - h * dy_h_mean));
    }
  });
  return absl::OkStatus();
}

}  // namespace

NormMoments Merge(const NormMoments& a, const NormMoments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count;
  const double delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count),
          a.m2 + b.m2 + delta * delta * (a.count * (b.count / count))};
}

absl::StatusOr<int64_t> NormSets(const NormLayout& layout) {
  const auto& [kind, batch, channels, cells, groups] = layout;
  const auto fault = [&layout](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("norm over [", layout.batch,
                                                   ", ", layout.channels, ", ",
                                                   layout.cells, "]: ", what));
  };
  if (batch < 0 || channels < 0 || cells < 0) return fault("negative extent");
  int64_t elements = 1;
  for (const int64_t extent : {batch, channels, cells}) {
    if (extent > 0 && elements > kElementsMax / extent) {
      return fault("more than 2^62 elements");
    }
    elements *= std::max<int64_t>(extent, 1);
  }
  if (kind == NormKind::kBatch) return channels;
  const bool divides = groups >= 1 &&
                       groups <= std::max<int64_t>(channels, 1) &&
                       channels % groups == 0;
  if (!divides) {
    return fault("the groups do not divide the channels");
  }
  return batch * groups;
}

std::vector<double> MomentSums(absl::Span<const NormMoments> local) {
  std::vector<double> sums;
  for (const NormMoments& moments : local) {
    sums.push_back(moments.count);
    sums.push_back(moments.count * moments.mean);
  }
  return sums;
}

absl::StatusOr<std::vector<double>> CentredSquares(
    absl::Span<const NormMoments> local, absl::Span<const double> sums) {
  absl::Status status =
      CheckSize("sums", sums.size(), 2 * static_cast<int64_t>(local.size()));
  if (!status.ok()) return status;
  std::vector<double> squares;
  for (size_t s = 0; s < local.size(); ++s) {
    const auto& [count, mean, m2] = local[s];
    const double deviation =
        count > 0 ? mean - sums[2 * s + 1] / sums[2 * s] : 0;
    squares.push_back(m2 + count * deviation * deviation);
  }
  return squares;
}

absl::StatusOr<std::vector<NormMoments>> TotalMoments(
    absl::Span<const double> sums, absl::Span<const double> squares) {
  absl::Status status =
      CheckSize("sums", sums.size(), 2 * static_cast<int64_t>(squares.size()));
  if (!status.ok()) return status;
  std::vector<NormMoments> total;
  for (size_t s = 0; s < squares.size(); ++s) {
    const double count = sums[2 * s];
    total.push_back(
        {count, count > 0 ? sums[2 * s + 1] / count : 0, squares[s]});
  }
  return total;
}

absl::StatusOr<std::vector<NormMoments>> LocalMoments(
    const NormLayout& layout, absl::Span<const float> x) {
  return MomentsOfBlock(layout, x);
}

absl::StatusOr<std::vector<NormMoments>> LocalMoments(
    const NormLayout& layout, absl::Span<const double> x) {
  return MomentsOfBlock(layout, x);
}

absl::Status NormForward(const NormLayout& layout, absl::Span<const float> x,
                         absl::Span<const NormMoments> total,
                         const NormAffine<float>& affine, absl::Span<float> y) {
  return Forward(layout, x, total, affine, y);
}

absl::Status NormForward(const NormLayout& layout, absl::Span<const double> x,
                         absl::Span<const NormMoments> total,
                         const NormAffine<double>& affine,
                         absl::Span<double> y) {
  return Forward(layout, x, total, affine, y);
}

absl::StatusOr<NormGradientSums> LocalGradientSums(
    const NormLayout& layout, absl::Span<const float> x,
    absl::Span<const float> dy, absl::Span<const NormMoments> total,
    const NormAffine<float>& affine) {
  return GradientSumsOf(layout, x, dy, total, affine);
}

absl::StatusOr<NormGradientSums> LocalGradientSums(
    const NormLayout& layout, absl::Span<const double> x,
    absl::Span<const double> dy, absl::Span<const NormMoments> total,
    const NormAffine<double>& affine) {
  return GradientSumsOf(layout, x, dy, total, affine);
}

absl::Status NormBackward(const NormLayout& layout, absl::Span<const float> x,
                          absl::Span<const float> dy,
                          absl::Span<const NormMoments> total,
                          const NormAffine<float>& affine,
                          absl::Span<const double> sets, absl::Span<float> dx) {
  return Backward(layout, x, dy, total, affine, sets, dx);
}

absl::Status NormBackward(const NormLayout& layout, absl::Span<const double> x,
                          absl::Span<const double> dy,
                          absl::Span<const NormMoments> total,
                          const NormAffine<double>& affine,
                          absl::Span<const double> sets,
                          absl::Span<double> dx) {
  return Backward(layout, x, dy, total, affine, sets, dx);
}

}  // namespace lockstep

// Batch and group normalisation of a field that is divided into blocks: the
// statistics are those of the whole field, and so are the gradients.
//
// Each rank has a block [batch, channels, cells], row by row: `cells` is the
// product of its spatial extents, which may differ between ranks. A *set* is
// what shares a mean and a variance; S is the number of sets:
//
//   kBatch   set c: channel c of all samples                 S = channels
//   kGroup   set b * groups + g: group g of channels of      S = batch * groups
//            sample b
//
// Instance norm is kGroup with as many groups as channels, layer norm over
// channels and space kGroup with one. The sums go over any group of ranks: that
// of the spatial axes; for kBatch also that of the data axis (SyncBatchNorm).
//
// Forward:
//
//   local   = LocalMoments(layout, x)             count, mean, m2 of each set
//   sums    = psum of MomentSums(local)           f64[S, 2]
//   squares = psum of CentredSquares(local, sums) f64[S]
//   total   = TotalMoments(sums, squares)
//   y       = (x - mean) r gamma + beta           NormForward
//
// where r = 1 / sqrt(m2 / count + epsilon). Backward, with h = (x - mean) r:
//
//   local = LocalGradientSums(layout, x, dy, ...)
//   sets  = psum of local.sets                    f64[S, 2]: sum of gamma dy,
//                                                 sum of gamma dy h
//   dx    = r (gamma dy - (sets[0] + h sets[1]) / count)     NormBackward
//   dgamma = psum of local.gamma, dbeta = psum of local.beta    f64[channels]
//
// The psum of `sets` is the transpose of those of the statistics. Without it,
// as with an all-reduce that automatic differentiation does not see, the
// gradient lacks the effect of a cell on the blocks of other ranks. dgamma and
// dbeta may be left to GradientSync, with op sum over the same ranks.
//
// A program with tensors on a device computes the same sums there, in the same
// layout; the functions here are for host memory.
//
// Accuracy: sums of squares are about a mean, so no digits cancel where the
// mean is large against the deviation, as they do in E[x^2] - E[x]^2. A rank's
// m2 is about its own mean; over the ranks, with n the counts,
//
//   mean = sum of n_r mean_r / sum of n_r
//   m2   = sum of m2_r + n_r (mean_r - mean)^2
//
// which needs no second pass over x and weights uneven blocks by their counts.
// Merge is the same for two sets: with it a single all_gather of the moments
// replaces both psums. Source: Chan, Golub, LeVeque, Algorithms for computing
// the sample variance, The American Statistician 37(3), 1983. Sums are f64; y
// and dx are rounded to their type once. Counts are exact below 2^53.
//
// Threads: pure functions.
// Errors:  InvalidArgument for a layout with negative extents, more than 2^62
//          elements or groups that do not divide the channels, and for spans
//          that do not have the layout's sizes.

#ifndef LOCKSTEP_DOMAIN_NORM_H_
#define LOCKSTEP_DOMAIN_NORM_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"

namespace lockstep {

// Mean and sum of squared deviations from it.
struct NormMoments {
  double count = 0, mean = 0, m2 = 0;

  double Variance() const { return m2 / count; }  // NaN without values
  // NaN of a single value.
  double UnbiasedVariance() const { return m2 / (count - 1); }
  bool operator==(const NormMoments&) const = default;
};

// The moments of both sets together. A BatchNorm's running statistics take
// total[c].mean and total[c].UnbiasedVariance().
LOCKSTEP_EXPORT NormMoments Merge(const NormMoments& a, const NormMoments& b);

enum class NormKind : uint8_t { kBatch, kGroup };

// The extents of this rank's block. A block without cells contributes nothing.
struct NormLayout {
  NormKind kind = NormKind::kGroup;
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t cells = 0;
  int64_t groups = 1;  // kGroup
};

LOCKSTEP_EXPORT absl::StatusOr<int64_t> NormSets(const NormLayout& layout);

// f64[S, 2]: count and sum of each set.
LOCKSTEP_EXPORT std::vector<double> MomentSums(
    absl::Span<const NormMoments> local);

// f64[S]: this rank's terms of m2, about the means of `sums`, f64[S, 2].
LOCKSTEP_EXPORT absl::StatusOr<std::vector<double>> CentredSquares(
    absl::Span<const NormMoments> local, absl::Span<const double> sums);

LOCKSTEP_EXPORT absl::StatusOr<std::vector<NormMoments>> TotalMoments(
    absl::Span<const double> sums, absl::Span<const double> squares);

// This rank's terms of the sums of the backward pass.
struct NormGradientSums {
  std::vector<double> sets;   // f64[S, 2]
  std::vector<double> gamma;  // f64[channels]
  std::vector<double> beta;   // f64[channels]
};

// gamma and beta: one for each channel, or empty for 1 and 0.
template <typename T>
struct NormAffine {
  absl::Span<const T> gamma;
  absl::Span<const T> beta;
  double epsilon = 1e-5;
};

// The moments of this rank's elements.
LOCKSTEP_EXPORT absl::StatusOr<std::vector<NormMoments>> LocalMoments(
    const NormLayout& layout, absl::Span<const float> x);
LOCKSTEP_EXPORT absl::StatusOr<std::vector<NormMoments>> LocalMoments(
    const NormLayout& layout, absl::Span<const double> x);

// y may be x.
LOCKSTEP_EXPORT absl::Status NormForward(const NormLayout& layout,
                                         absl::Span<const float> x,
                                         absl::Span<const NormMoments> total,
                                         const NormAffine<float>& affine,
                                         absl::Span<float> y);
LOCKSTEP_EXPORT absl::Status NormForward(const NormLayout& layout,
                                         absl::Span<const double> x,
                                         absl::Span<const NormMoments> total,
                                         const NormAffine<double>& affine,
                                         absl::Span<double> y);

LOCKSTEP_EXPORT absl::StatusOr<NormGradientSums> LocalGradientSums(
    const NormLayout& layout, absl::Span<const float> x,
    absl::Span<const float> dy, absl::Span<const NormMoments> total,
    const NormAffine<float>& affine);
LOCKSTEP_EXPORT absl::StatusOr<NormGradientSums> LocalGradientSums(
    const NormLayout& layout, absl::Span<const double> x,
    absl::Span<const double> dy, absl::Span<const NormMoments> total,
    const NormAffine<double>& affine);

// `sets`: summed over the ranks. dx may be dy or x.
LOCKSTEP_EXPORT absl::Status NormBackward(const NormLayout& layout,
                                          absl::Span<const float> x,
                                          absl::Span<const float> dy,
                                          absl::Span<const NormMoments> total,
                                          const NormAffine<float>& affine,
                                          absl::Span<const double> sets,
                                          absl::Span<float> dx);
LOCKSTEP_EXPORT absl::Status NormBackward(const NormLayout& layout,
                                          absl::Span<const double> x,
                                          absl::Span<const double> dy,
                                          absl::Span<const NormMoments> total,
                                          const NormAffine<double>& affine,
                                          absl::Span<const double> sets,
                                          absl::Span<double> dx);

}  // namespace lockstep

#endif  // LOCKSTEP_DOMAIN_NORM_H_

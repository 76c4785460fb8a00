#include "examples/digits/wire_bound.h"

#include <cmath>

namespace lockstep::digits {
namespace {

// bf16 has 8 significant bits, f16 has 11.
double RelativeOf(DType wire, DType gradients) {
  const double half = wire == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  const double before = gradients == DType::kF32 ? 0x1p-24 : 0x1p-53;
  return half + before * (1 + half);
}

// Half of the smallest number: 2^-133 in bf16, 2^-24 in f16.
double AbsoluteOf(DType wire) {
  return wire == DType::kBF16 ? 0x1p-134 : 0x1p-25;
}

double OfAddition(int ranks) {
  const double roundings = (ranks - 1) * 0x1p-24;
  return roundings / (1 - roundings);
}

}  // namespace

WireBound::WireBound(DType wire, DType gradients, int ranks)
    : relative_(RelativeOf(wire, gradients)),
      absolute_(AbsoluteOf(wire)),
      of_addition_(OfAddition(ranks)) {}

double WireBound::Add(double gradient, double carried) {
  const double cast = std::abs(gradient) + carried;
  const double lost = relative_ * cast + absolute_;
  sum_ += gradient;
  cast_errors_ += lost + carried;
  sent_ += cast + lost;
  return lost;
}

double WireBound::error_max() const {
  const double of_sum = of_addition_ + relative_ * (1 + of_addition_);
  return cast_errors_ + of_sum * sent_ + absolute_;
}

}  // namespace lockstep::digits

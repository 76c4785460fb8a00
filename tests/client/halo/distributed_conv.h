// A convolution over blocks as the header halo_layers.h says, all ranks of the
// domain in one process. The exchange is played: each rank's padded block is
// taken from the padded field, and its adjoint adds every cell to its source.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_DISTRIBUTED_CONV_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_DISTRIBUTED_CONV_H_

#include <array>
#include <vector>

#include "lockstep/halo_layers.h"
#include "tests/client/halo/reference_conv.h"

namespace lockstep::halo_test {

// For rows and for columns.
using PlaneBounds = std::array<std::vector<int64_t>, 2>;
using PlaneCut = std::array<ConvCut, 2>;

// Throws std::logic_error where a block has another size than the cut says, or
// an output has not exactly one owner.
Tensor4 DistributedConv(const ConvPlane& layer, const PlaneBounds& bounds,
                        const PlaneCut& cut, const Tensor4& x,
                        const ConvWeights& weights);

ConvGradients DistributedGradients(const ConvPlane& layer,
                                   const PlaneBounds& bounds,
                                   const PlaneCut& cut, const Tensor4& x,
                                   const ConvWeights& weights,
                                   const Tensor4& dy);

}  // namespace lockstep::halo_test

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_DISTRIBUTED_CONV_H_

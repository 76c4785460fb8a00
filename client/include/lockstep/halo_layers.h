// Cuts a convolution over a field that is divided into blocks: which halos a
// rank needs, what it drops of them, and which outputs it owns, so that the
// blocks of the output are those of the single-device convolution.
//
//   kernel 3, stride 2, padding 1 over 10 cells; blocks [0,5) and [5,10);
//   low 1, high 1; e: a cell of the edge rule
//
//            padded block     trims   the layer reads   outputs
//   rank 0   e 0 1 2 3 4 5    0, 0    e 0 1 2 3 4 5     0 1 2
//   rank 1   4 5 6 7 8 9 e    1, 1    5 6 7 8 9         3 4
//
//   auto cut = CutConv({.kernel = 3, .stride = 2, .padding_low = 1,
//                       .padding_high = 1}, {0, 5, 10});
//   HaloDim rows = cut->Halo(-2, "y");         // for the exchange's HaloSpec
//   const ConvBlock& mine = cut->blocks[rank];
//
// Each spatial dimension is cut on its own; a layer has one ConvCut for each.
// A dimension that no mesh axis cuts has one block: its halo is then the
// layer's padding, by any edge rule.
//
// Forward, on each rank:
//   1. exchange: `low` cells before the block and `high` after it. Cells beyond
//      the field are those of the edge rule, so the layer's own padding is not
//      applied any more.
//   2. drop trim_low cells at the begin of the padded block and trim_high at
//      the end. A trim may exceed the halo.
//   3. run the layer with padding 0 in this dimension; a transposed one with
//      the block's output_padding.
//   4. transposed: drop crop_low outputs at the begin and crop_high at the end.
// The result is the block [output_bounds[r], output_bounds[r + 1]) of the
// output. The output bounds are the bounds of the next layer.
//
// Backward: the same steps in reverse. Pad the output's gradient with zeros by
// the crops, run the layer's own backward, pad the input's gradient with zeros
// by the trims, and give it to the adjoint exchange, which adds the halos to
// the cells that they are copies of. Each output belongs to one rank, so the
// gradients of weight and bias are the sums over the ranks of the domain.
//
// Formulas, with s the stride, d the dilation, k the kernel, p and q the
// padding before and after, N the field's cells, K = d (k - 1) + 1 the extent
// of the kernel (Dumoulin and Visin, A guide to convolution arithmetic for deep
// learning, arXiv:1603.07285, chapters 2 and 4):
//
//   convolution   out[j] = sum over t < k of w[t] in[j s - p + d t]
//                 M = floor((N + p + q - K) / s) + 1 outputs
//                 outputs [a, b) read inputs [a s - p, (b - 1) s - p + K)
//   transposed    in[i] w[t] is added to out[i s - p + d t]
//                 M = (N - 1) s - p - q + K + output_padding outputs
//                 outputs [a, b) are written by inputs
//                 [ceil((a + p - K + 1) / s), floor((b - 1 + p) / s)]
//
// Ownership, unless the caller gives output bounds: an output belongs to the
// rank that has its anchor cell.
//
//   convolution   cell j s + c of output j, where c = (K - 1 - p - q) / 2
//                 rounded towards 0: the centre of its window if p = q
//   transposed    cell i has outputs [i s + c, (i + 1) s + c), where
//                 c = (M - N s) / 2 rounded towards 0
//
// Hence a layer that keeps the size (s = 1, M = N) keeps the bounds, and with
// M = N / s or M = N s bounds that s divides are divided or multiplied by it.
// Anchors outside of the field belong to the first or last rank. Where this
// leaves a rank without outputs, bounds are moved by as few outputs as give it
// one; the halos are then wider.
//
// Edges and the padding_mode of PyTorch's layers:
//
//   zero       'zeros'. The only mode of a transposed layer, whose outputs read
//              no cell beyond the field.
//   constant   torch.nn.functional.pad(value=constant), then padding 0
//   periodic   'circular', with any padding
//   reflect    'reflect': both paddings and both halos are below N
//   replicate  'replicate'
//   none       without padding only. The exchange adds nothing at the field's
//              edges, and the trims of the first and last ranks are smaller.
//
// PyTorch's padding='same' is p = (K - 1) / 2 rounded down, q = K - 1 - p.
//
// What cannot be cut: fewer outputs than ranks; a reflecting edge with halos as
// wide as the field; other edges than zero and none for a transposed layer.
//
// Threads: pure functions.

#ifndef LOCKSTEP_HALO_LAYERS_H_
#define LOCKSTEP_HALO_LAYERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"
#include "lockstep/halo_spec.h"

namespace lockstep {

// One spatial dimension of a convolution or transposed convolution.
struct ConvDim {
  int64_t kernel = 1;  // at least 1, as stride and dilation
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t padding_low = 0;  // not negative
  int64_t padding_high = 0;
  bool transposed = false;
  // Transposed: additional outputs at the end; less than the larger of stride
  // and dilation.
  int64_t output_padding = 0;
  HaloEdge edge = HaloEdge::kZero;
  double constant = 0;  // kConstant
  bool operator==(const ConvDim&) const = default;
};

// What one rank does to its padded block and its output.
struct ConvBlock {
  int64_t trim_low = 0;  // of the padded block, before the layer
  int64_t trim_high = 0;
  // Transposed: as in ConvDim, in place of the layer's own.
  int64_t output_padding = 0;
  int64_t crop_low = 0;  // transposed: of the layer's output
  int64_t crop_high = 0;
  bool operator==(const ConvBlock&) const = default;
};

struct ConvCut {
  int64_t low = 0;  // of the exchange; both 0: none is needed
  int64_t high = 0;
  HaloEdge edge = HaloEdge::kZero;
  double constant = 0;
  std::vector<int64_t> output_bounds;  // one more than blocks, from 0 to M
  std::vector<ConvBlock> blocks;       // one for each rank
  bool operator==(const ConvCut&) const = default;

  // The dimension of a tensor that is cut over `axis` (empty: not cut).
  HaloDim Halo(int dim, std::string axis) const {
    return {dim, std::move(axis), low, high, edge, constant};
  }
};

// The number of outputs of the single-device layer over a field of `cells`.
// InvalidArgument: a setting out of its range, above 2^62 included; a field
// without cells; a layer without outputs, or with more than 2^62.
LOCKSTEP_EXPORT absl::StatusOr<int64_t> ConvOutputSize(const ConvDim& conv,
                                                       int64_t cells);

// Cuts the layer over blocks [bounds[r], bounds[r + 1]) of a field of N cells:
// bounds increase from 0 to N. `output_bounds`, if not empty, are the bounds of
// the outputs, increasing from 0 to the output's size.
// InvalidArgument: as ConvOutputSize; bounds that are not so, which an empty
// block is; what cannot be cut; a padded block of more than 2^63 - 1 cells. The
// message has the setting, the rank and both numbers.
LOCKSTEP_EXPORT absl::StatusOr<ConvCut> CutConv(
    const ConvDim& conv, absl::Span<const int64_t> bounds,
    absl::Span<const int64_t> output_bounds = {});

}  // namespace lockstep

#endif  // LOCKSTEP_HALO_LAYERS_H_

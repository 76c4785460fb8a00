#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "lockstep/halo_layers.h"

namespace lockstep {
namespace {

// Settings and sizes are at most 2^62, so products of two of them, and sums of
// some of these, do not overflow.
__extension__ typedef __int128 Wide;
constexpr int64_t kSizeMax = int64_t{1} << 62;

Wide FloorDiv(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }
Wide CeilDiv(Wide a, Wide b) { return -FloorDiv(-a, b); }

struct WideRange {
  Wide begin, end;
};
struct HaloWidths {
  Wide low = 0, high = 0;
};

Wide Extent(const ConvDim& c) { return Wide{c.dilation} * (c.kernel - 1) + 1; }

bool FitsInt64(Wide size) {
  return size <= std::numeric_limits<int64_t>::max();
}

// A size.
std::string Text(Wide size) {
  return FitsInt64(size) ? absl::StrCat(static_cast<int64_t>(size))
                         : "more than 2^63 - 1";
}

std::string Text(const ConvDim& c) {
  std::string text =
      absl::StrCat(c.transposed ? "transposed conv" : "conv", "(kernel ",
                   c.kernel, ", stride ", c.stride, ", dilation ", c.dilation,
                   ", padding ", c.padding_low, " and ", c.padding_high);
  if (c.transposed)
    absl::StrAppend(&text, ", output_padding ", c.output_padding);
  absl::StrAppend(&text, ", edge ", AbslView(Name(c.edge)), ")");
  return text;
}

template <typename... Parts>
absl::Status Invalid(const ConvDim& conv, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(Text(conv), ": ", parts...));
}

absl::Status CheckRange(const ConvDim& c, const char* name, int64_t value,
                        int64_t min) {
  if (value >= min && value <= kSizeMax) return absl::OkStatus();
  return Invalid(c, name, " is ", value, "; it must be between ", min,
                 " and 2^62");
}

absl::Status CheckSetting(const ConvDim& c) {
  absl::Status status = CheckRange(c, "kernel", c.kernel, 1);
  status.Update(CheckRange(c, "stride", c.stride, 1));
  status.Update(CheckRange(c, "dilation", c.dilation, 1));
  status.Update(CheckRange(c, "padding_low", c.padding_low, 0));
  status.Update(CheckRange(c, "padding_high", c.padding_high, 0));
  status.Update(CheckRange(c, "output_padding", c.output_padding, 0));
  if (!status.ok()) return status;
  if (!c.transposed && c.output_padding != 0) {
    return Invalid(c, "output_padding ", c.output_padding,
                   " of a convolution that is not transposed");
  }
  if (c.transposed && c.output_padding >= std::max(c.stride, c.dilation)) {
    return Invalid(c, "output_padding ", c.output_padding,
                   " must be less than the larger of stride and dilation");
  }
  return absl::OkStatus();
}

absl::Status CheckEdge(const ConvDim& c, int64_t cells) {
  const int64_t padding = std::max(c.padding_low, c.padding_high);
  switch (c.edge) {
    case HaloEdge::kZero: return absl::OkStatus();
    case HaloEdge::kNone:
      if (c.transposed || padding == 0) return absl::OkStatus();
      return Invalid(c, "with edge none the field has no cells for a padding ",
                     "of ", padding);
    case HaloEdge::kConstant:
    case HaloEdge::kPeriodic:
    case HaloEdge::kReflect:
    case HaloEdge::kReplicate:
      if (c.transposed) {
        return Invalid(c, "the padding of a transposed convolution removes ",
                       "outputs: its edge must be zero or none");
      }
      if (c.edge == HaloEdge::kReflect && padding >= cells) {
        return Invalid(c, "a padding of ", padding, " cannot reflect a field ",
                       "of ", cells, " cells; it must be smaller");
      }
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "CutConv: no edge has the number ", static_cast<int>(c.edge)));
}

Wide OutputSize(const ConvDim& c, int64_t cells) {
  const Wide padding = Wide{c.padding_low} + c.padding_high;
  if (c.transposed) {
    return Wide{c.stride} * (cells - 1) - padding + Extent(c) +
           c.output_padding;
  }
  return FloorDiv(cells + padding - Extent(c), c.stride) + 1;
}

absl::Status CheckBounds(const ConvDim& conv, const char* name,
                         absl::Span<const int64_t> bounds) {
  if (bounds.size() < 2) {
    return Invalid(conv, name, " has ", bounds.size(),
                   " offsets; there is one more than ranks");
  }
  if (bounds.front() != 0) {
    return Invalid(conv, name, " begins with ", bounds.front(), ", not 0");
  }
  for (size_t r = 0; r + 1 < bounds.size(); ++r) {
    if (bounds[r] >= bounds[r + 1]) {
      return Invalid(conv, name, " gives rank ", r, " the empty block [",
                     bounds[r], ", ", bounds[r + 1], ")");
    }
  }
  return absl::OkStatus();
}

// The first output whose anchor cell is not before the input `bound`.
Wide FirstAnchored(const ConvDim& c, int64_t cells, int64_t outputs,
                   int64_t bound) {
  if (c.transposed) {
    const Wide excess = outputs - Wide{c.stride} * cells;
    return Wide{c.stride} * bound + excess / 2;
  }
  const Wide excess = Extent(c) - 1 - c.padding_low - c.padding_high;
  return CeilDiv(bound - excess / 2, c.stride);
}

// There are at least as many outputs as blocks.
std::vector<int64_t> AnchoredBounds(const ConvDim& conv,
                                    absl::Span<const int64_t> bounds,
                                    int64_t outputs) {
  const size_t n = bounds.size() - 1;
  std::vector<int64_t> anchored(n + 1, 0);
  for (size_t r = 1; r < n; ++r) {
    const Wide first =
        std::clamp(FirstAnchored(conv, bounds[n], outputs, bounds[r]), Wide{0},
                   Wide{outputs});
    anchored[r] = std::max(static_cast<int64_t>(first), anchored[r - 1] + 1);
  }
  anchored[n] = outputs;
  for (size_t r = n - 1; r > 0; --r) {
    anchored[r] = std::min(anchored[r], anchored[r + 1] - 1);
  }
  return anchored;
}

// The inputs that the local layer of the outputs [begin, end) reads.
WideRange InputsOf(const ConvDim& c, int64_t cells, int64_t begin,
                   int64_t end) {
  const Wide s = c.stride, p = c.padding_low;
  if (!c.transposed) {
    return {begin * s - p, (end - 1) * s - p + Extent(c)};
  }
  // The local output begins where its first input writes, which must not be
  // behind `begin`, even if that input writes nothing that is owned. Behind its
  // last input, output_padding extends it.
  const Wide writes = CeilDiv(begin + p - Extent(c) + 1, s);
  const Wide begins_before = FloorDiv(begin + p, s);
  return {std::clamp(std::min(writes, begins_before), Wide{0}, Wide{cells - 1}),
          std::min(FloorDiv(end - 1 + p, s) + 1, Wide{cells})};
}

// The cells of the whole field that the padded block of [begin, end) has.
WideRange PaddedBlock(const ConvDim& c, HaloWidths halo, int64_t cells,
                      int64_t begin, int64_t end) {
  const WideRange padded{begin - halo.low, end + halo.high};
  if (c.edge != HaloEdge::kNone) return padded;
  return {std::max(padded.begin, Wide{0}), std::min(padded.end, Wide{cells})};
}

// The outputs that the local layer has of `inputs`, without output_padding.
WideRange WrittenBy(const ConvDim& c, WideRange inputs) {
  return {inputs.begin * c.stride - c.padding_low,
          (inputs.end - 1) * c.stride - c.padding_low + Extent(c)};
}

absl::Status CheckHalo(const ConvDim& conv, HaloWidths halo, int64_t cells) {
  const Wide widest = std::max(halo.low, halo.high);
  if (conv.edge == HaloEdge::kReflect && widest >= cells) {
    return Invalid(conv, "ranks need halos of ", Text(widest),
                   " cells, but a field of ", cells,
                   " cells can be reflected by less than its size only");
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvBlock> BlockOf(const ConvDim& c, size_t rank,
                                  WideRange padded, WideRange inputs,
                                  int64_t begin, int64_t end) {
  if (!FitsInt64(padded.end - padded.begin)) {
    return Invalid(c, "rank ", rank, " needs a block of ",
                   Text(padded.end - padded.begin), " cells with its halos");
  }
  ConvBlock block{static_cast<int64_t>(inputs.begin - padded.begin),
                  static_cast<int64_t>(padded.end - inputs.end)};
  if (!c.transposed) return block;
  const WideRange written = WrittenBy(c, inputs);
  if (!FitsInt64(written.end - written.begin)) {
    return Invalid(c, "rank ", rank, " has a local output of ",
                   Text(written.end - written.begin), " cells");
  }
  const Wide behind = written.end - end;
  block.crop_low = static_cast<int64_t>(begin - written.begin);
  block.crop_high = static_cast<int64_t>(std::max(behind, Wide{0}));
  block.output_padding = static_cast<int64_t>(std::max(-behind, Wide{0}));
  return block;
}

}  // namespace

absl::StatusOr<int64_t> ConvOutputSize(const ConvDim& conv, int64_t cells) {
  absl::Status status = CheckSetting(conv);
  status.Update(CheckRange(conv, "the field's size", cells, 1));
  status.Update(CheckEdge(conv, cells));
  if (!status.ok()) return status;
  const Wide outputs = OutputSize(conv, cells);
  if (outputs < 1) {
    return Invalid(conv, "no output over a field of ", cells, " cells");
  }
  if (outputs > kSizeMax) {
    return Invalid(conv, "more than 2^62 outputs over a field of ", cells,
                   " cells");
  }
  return static_cast<int64_t>(outputs);
}

absl::StatusOr<ConvCut> CutConv(const ConvDim& conv,
                                absl::Span<const int64_t> bounds,
                                absl::Span<const int64_t> output_bounds) {
  absl::Status status = CheckBounds(conv, "bounds", bounds);
  if (!status.ok()) return status;
  const size_t n = bounds.size() - 1;
  const int64_t cells = bounds.back();
  const auto outputs = ConvOutputSize(conv, cells);
  if (!outputs.ok()) return outputs.status();

  ConvCut cut{.edge = conv.edge, .constant = conv.constant};
  if (output_bounds.empty()) {
    if (*outputs < static_cast<int64_t>(n)) {
      return Invalid(conv, *outputs, " outputs over a field of ", cells,
                     " cells cannot be cut for ", n, " ranks");
    }
    cut.output_bounds = AnchoredBounds(conv, bounds, *outputs);
  } else {
    status = CheckBounds(conv, "output_bounds", output_bounds);
    if (!status.ok()) return status;
    if (output_bounds.size() != n + 1 || output_bounds.back() != *outputs) {
      return Invalid(conv, "output_bounds has ", output_bounds.size() - 1,
                     " blocks of ", output_bounds.back(),
                     " outputs, the layer ", n, " of ", *outputs);
    }
    cut.output_bounds.assign(output_bounds.begin(), output_bounds.end());
  }

  const std::vector<int64_t>& owned = cut.output_bounds;
  std::vector<WideRange> inputs;
  HaloWidths halo;
  for (size_t r = 0; r < n; ++r) {
    inputs.push_back(InputsOf(conv, cells, owned[r], owned[r + 1]));
    halo.low = std::max(halo.low, bounds[r] - inputs[r].begin);
    halo.high = std::max(halo.high, inputs[r].end - bounds[r + 1]);
  }
  status = CheckHalo(conv, halo, cells);
  if (!status.ok()) return status;
  for (size_t r = 0; r < n; ++r) {
    const auto block = BlockOf(
        conv, r, PaddedBlock(conv, halo, cells, bounds[r], bounds[r + 1]),
        inputs[r], owned[r], owned[r + 1]);
    if (!block.ok()) return block.status();
    cut.blocks.push_back(*block);
  }
  cut.low = static_cast<int64_t>(halo.low);
  cut.high = static_cast<int64_t>(halo.high);
  return cut;
}

}  // namespace lockstep

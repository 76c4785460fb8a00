#include "client/collectives/ragged_slices.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/collectives/shapes.h"

namespace lockstep::collectives {
namespace {

using kernels::RowRange;

std::vector<int64_t> ReadVector(const TensorType& type, const void* data) {
  std::vector<int64_t> values(ElementsOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.dtype == DType::kI32) {
      values[i] = static_cast<const int32_t*>(data)[i];
    } else {
      values[i] = static_cast<const int64_t*>(data)[i];
    }
  }
  return values;
}

absl::Status OutOfBounds(const char* what, size_t k, int64_t offset,
                         int64_t size, int64_t rows) {
  return absl::InvalidArgumentError(
      absl::StrCat("ragged_all_to_all: slice ", k, " has ", size, " rows at ",
                   offset, " of ", what, ", which has ", rows));
}

bool IsWithin(int64_t offset, int64_t size, int64_t rows) {
  return size >= 0 && offset >= 0 && offset <= rows && size <= rows - offset;
}

// The ranges of out rows that are not empty, in order; overlaps are next to
// each other.
bool Overlap(std::vector<RowRange> ranges) {
  std::erase_if(ranges, [](const RowRange& r) { return r.rows == 0; });
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.out_row < b.out_row; });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].out_row < ranges[i - 1].out_row + ranges[i - 1].rows) {
      return true;
    }
  }
  return false;
}

}  // namespace

PeerBytes ByPeer(const std::vector<int64_t>& sizes, int members,
                 size_t row_bytes) {
  PeerBytes bytes;
  const size_t slices = sizes.size() / static_cast<size_t>(members);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k % slices == 0) {
      bytes.counts.push_back(0);
      bytes.offsets.push_back(bytes.total);
    }
    bytes.counts.back() += static_cast<size_t>(sizes[k]) * row_bytes;
    bytes.total += static_cast<size_t>(sizes[k]) * row_bytes;
  }
  return bytes;
}

absl::Status CheckSlices(const RaggedSlices& s) {
  for (size_t k = 0; k < s.count(); ++k) {
    if (!IsWithin(s.input_offsets[k], s.send_sizes[k], s.operand_rows)) {
      return OutOfBounds("the operand", k, s.input_offsets[k], s.send_sizes[k],
                         s.operand_rows);
    }
    if (!IsWithin(s.output_offsets[k], s.send_sizes[k], s.output_rows)) {
      return OutOfBounds("the output", k, s.output_offsets[k], s.send_sizes[k],
                         s.output_rows);
    }
    if (s.recv_sizes[k] < 0 || s.recv_sizes[k] > s.output_rows) {
      return OutOfBounds("the output", k, 0, s.recv_sizes[k], s.output_rows);
    }
  }
  return absl::OkStatus();
}

std::vector<RowRange> Ranges(const std::vector<int64_t>& offsets,
                             const std::vector<int64_t>& sizes, bool packed) {
  std::vector<RowRange> ranges;
  size_t at = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto offset = static_cast<size_t>(offsets[k]);
    const auto rows = static_cast<size_t>(sizes[k]);
    ranges.push_back(packed ? RowRange{offset, at, rows}
                            : RowRange{at, offset, rows});
    at += rows;
  }
  return ranges;
}

absl::StatusOr<std::vector<int64_t>> ReceivedOffsets(const RaggedSlices& s,
                                                     const std::byte* at) {
  std::vector<int64_t> offsets(s.count());
  std::memcpy(offsets.data(), at, s.count() * sizeof(int64_t));
  for (size_t k = 0; k < s.count(); ++k) {
    if (!IsWithin(offsets[k], s.recv_sizes[k], s.output_rows)) {
      return OutOfBounds("the output", k, offsets[k], s.recv_sizes[k],
                         s.output_rows);
    }
  }
  if (Overlap(Ranges(offsets, s.recv_sizes, /*packed=*/false))) {
    return absl::InvalidArgumentError(
        "ragged_all_to_all: rows of two slices overlap in the output");
  }
  return offsets;
}

RaggedTensors TensorsOf(const AxisCollective& op,
                        absl::Span<const TensorType> types) {
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  return forward ? RaggedTensors{types[0], types[1]}
                 : RaggedTensors{types[5], types[0]};
}

RaggedSlices SlicesOf(const AxisCollective& op,
                      absl::Span<const TensorType> all_types,
                      absl::Span<const void* const> inputs) {
  const auto& [operand, output] = TensorsOf(op, all_types);
  const bool forward = op.kind == AxisCollectiveKind::kRaggedAllToAll;
  const auto types = all_types.subspan(forward ? 2 : 1, 4);
  const auto vectors = inputs.subspan(forward ? 2 : 1, 4);
  RaggedSlices s{
      .operand_rows = operand.shape[0],
      .output_rows = output.shape[0],
      .row_elements = Product(operand.shape, 1, operand.shape.size()),
      .dtype = operand.dtype,
      .input_offsets = ReadVector(types[0], vectors[0]),
      .send_sizes = ReadVector(types[1], vectors[1]),
      .output_offsets = ReadVector(types[2], vectors[2]),
      .recv_sizes = ReadVector(types[3], vectors[3])};
  s.row_bytes = s.row_elements * SizeOf(operand.dtype);
  return s;
}

}  // namespace lockstep::collectives

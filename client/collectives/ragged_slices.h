// The slices of a ragged exchange: sizes and offsets, and what both members of
// a slice must know of it.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_SLICES_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/row_copy.h"
#include "lockstep/axis_collective.h"

namespace lockstep::collectives {

// Rows of each member's slices together, for AllToAllV in bytes.
struct PeerBytes {
  std::vector<size_t> counts, offsets;
  size_t total = 0;
};

PeerBytes ByPeer(const std::vector<int64_t>& sizes, int members,
                 size_t row_bytes);

// What is the same in both directions. Copied into the stream's work.
struct RaggedSlices {
  int64_t operand_rows = 0, output_rows = 0;
  size_t row_bytes = 0, row_elements = 0;
  DType dtype = DType::kU8;
  std::vector<int64_t> input_offsets, send_sizes, output_offsets, recv_sizes;
  size_t count() const { return send_sizes.size(); }
};

struct RaggedTensors {
  const TensorType& operand;
  const TensorType& output;
};

RaggedTensors TensorsOf(const AxisCollective& op,
                        absl::Span<const TensorType> types);

// Reads the four vectors of a call of ragged_all_to_all or its transpose.
RaggedSlices SlicesOf(const AxisCollective& op,
                      absl::Span<const TensorType> all_types,
                      absl::Span<const void* const> inputs);

// InvalidArgument for sizes and offsets outside of the tensors.
absl::Status CheckSlices(const RaggedSlices& s);

// Rows `sizes[k]` at `offsets[k]`, against the same rows one after the other.
// Packed: from the tensor; else to it.
std::vector<kernels::RowRange> Ranges(const std::vector<int64_t>& offsets,
                                      const std::vector<int64_t>& sizes,
                                      bool packed);

// Where the rows from other members are in this member's output.
// InvalidArgument if they are outside of it or overlap.
absl::StatusOr<std::vector<int64_t>> ReceivedOffsets(const RaggedSlices& s,
                                                     const std::byte* at);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_SLICES_H_

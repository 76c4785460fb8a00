// One call of a Communicator's method, as a value. It is checked before it is
// enqueued, and executed later on the stream.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_OP_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_OP_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/common/box_message.h"
#include "client/transport/common/slices.h"
#include "kernels/finite_check.h"
#include "lockstep/dtype.h"

namespace lockstep::transport {

// Sent on the wire (announcement.h).
enum class CollectiveKind : uint8_t {
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kAllToAll = 5,
  kAllToAllV = 6,
  kSend = 7,
  kRecv = 8,
  kBarrier = 9,
};

std::string_view Name(CollectiveKind kind);

// A part of an all-reduce's result, and the total to which its finite check is
// added.
struct CheckedPart {
  SliceRange range;
  kernels::FiniteCheck* total = nullptr;
};

struct CollectiveOp {
  CollectiveKind kind = CollectiveKind::kBarrier;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;  // elements, as communicator.h says for each method
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  bool in_pairs = false;  // a sum in pairs, times `factor`: AllReducePairs
  double factor = 1;
  // AllReduce with ReduceOp::kMean: the divisor of the sum; 0: the number of
  // ranks. Not on the wire: all ranks must pass the same.
  int divisor = 0;
  int peer = 0;  // the root of a broadcast, the peer of Send and Recv
  // AllToAllV only; one entry per rank, in elements.
  std::vector<size_t> in_counts, in_offsets, out_counts, out_offsets;
  // AllReduce of floats only, if CollectiveExecutor::checks: adds
  // kernels::CheckFinite of each of these parts of the result to its total. The
  // parts are in this rank's ReduceSliceOf, in ascending order. Not on the
  // wire: ranks may pass different ones.
  std::vector<CheckedPart> checks;
  // Send and Recv only, if CollectiveExecutor::moves_boxes. `out`, and `in` of
  // a send, is the packed message or a buffer for it. Not on the wire.
  BoxOperands boxes;
  // The first of the tags that the call's transfers may use; see FirstTag.
  uint64_t tag = 0;

  size_t bytes() const { return count * SizeOf(dtype); }
  int DivisorOf(int ranks) const { return divisor > 0 ? divisor : ranks; }
  bool is_point_to_point() const {
    return kind == CollectiveKind::kSend || kind == CollectiveKind::kRecv;
  }
};

// The slice of an all-reduce that `rank` reduces and writes to the memory of
// all ranks (in shared memory).
SliceRange ReduceSliceOf(const CollectiveOp& call, int ranks, int rank);

// Moves the caller's `calls` to a vector.
inline std::vector<CollectiveOp> Moved(std::span<CollectiveOp> calls) {
  return {std::make_move_iterator(calls.begin()),
          std::make_move_iterator(calls.end())};
}

// The first of the 2^24 tags of the `number`th collective of a group, or of the
// `number`th transfer from one rank to another. Tags are never shared.
inline uint64_t FirstTag(bool point_to_point, uint64_t number) {
  return (point_to_point ? uint64_t{1} << 63 : 0) | number << 24;
}

// InvalidArgument if no transport could execute `call` on `rank` of `size`.
absl::Status CheckOp(const CollectiveOp& call, int rank, int size);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COLLECTIVE_OP_H_

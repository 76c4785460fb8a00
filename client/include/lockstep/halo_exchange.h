// Exchanges halos: each rank of a group holds a block of a field, and gets the
// cells of its neighbours that surround it, and what is beyond the field's edge
// (halo_spec.h).
//
//   auto halo = session->Halo({.name = "u", .tensors = {{
//       .dtype = DType::kF32, .shape = {1, 4, 8, 16},      // this rank's block
//       .dims = {{.dim = -2, .axis = "domain", .low = 1, .high = 1}}}}});
//   sync->Seal();                       // or session->Connect()
//   for (;;) {
//     auto pending = halo->Start({x}, {padded});
//     ...                               // meanwhile the interior: all of x
//     pending->Wait();                  // both: Forward
//     ...
//     halo->Backward({d_padded}, {d_x});
//   }
//
// `padded` has the block's shape plus low and high in each dimension; at an
// edge without a rule (HaloEdge::kNone) fewer. In place: a null block means
// that the block is in `padded` already, as its interior. Then only halos are
// copied, so this is the fastest way.
//
// Backward is the exact adjoint of the linear part: each gradient of a padded
// cell is added to the gradient of the cell that it was a copy of, wherever
// that is; those of constant cells are dropped. In place (a null block
// gradient) the sums are in the interior of the padded gradient, whose halos
// are unspecified.
//
// The ranks that differ only in the axes that cut a tensor of the exchange are
// its group. The plan has the routes, verified with the rest: one message for
// each pair of ranks and direction. Rows that are contiguous in memory are sent
// from where they are, others are packed. On one host and in arena memory
// (Session::Allocate) the receiver reads them in place.
//
// Order:   all members make the same calls in the same order, also of different
//          exchanges over the same axes. They run in this order. Exchanges over
//          different axes, and everything else, run at the same time; on a
//          device the ranks must call them in one order, and not while
//          gradients are being reduced.
// Numerics: Forward copies bits. Backward adds in one order on every transport:
//          what the rank's own padded block has, then peers' copies by rank;
//          each addition is rounded once (halves and f8 are added in f32),
//          integers wrap, a bool is the or.
// Memory:  rows of the whole tensor, without gaps; the host's, or with
//          transport: nccl the device's. Valid and unchanged until the
//          operation is complete. What is written overlaps nothing (in place:
//          null blocks, of all tensors), and is not read before that.
// Threads: one at a time for exchanges over the same axes; Wait from any.
// Ownership: a handle is a value; all are destroyed before the session.
// Progress: a completed exchange is progress of its rank.
// Errors:  InvalidArgument for null or overlapping memory, another number of
//          tensors than declared, and a stream of other memory;
//          FailedPrecondition before the session is connected, after it is
//          gone, and during a call of another thread for the same axes;
//          Unimplemented for a captured stream if messages are packed: all with
//          nothing enqueued. Later errors are those of Wait and of the stream.

#ifndef LOCKSTEP_HALO_EXCHANGE_H_
#define LOCKSTEP_HALO_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/axis_group.h"
#include "lockstep/export.h"
#include "lockstep/halo_spec.h"
#include "lockstep/stream.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

// Where a rank's block is in the whole field; one number for each dimension.
struct HaloBlock {
  std::vector<int64_t> field;  // the size of the whole
  std::vector<int64_t> begin;  // the block's first cell
  std::vector<int64_t> low;    // cells of the padded block before the block
  std::vector<int64_t> high;   // and after it
};

class LOCKSTEP_EXPORT HaloExchange {
 public:
  class LOCKSTEP_HIDDEN Impl;
  explicit HaloExchange(std::shared_ptr<Impl> impl);

  // As declared, with dimensions counted from 0.
  const HaloSpec& spec() const;

  // One for each tensor. FailedPrecondition before the session is connected.
  absl::StatusOr<std::vector<HaloBlock>> blocks() const;
  absl::StatusOr<std::vector<TensorType>> padded_types() const;

  // Fills `padded`. Start: on the group's own stream, behind the events in
  // `after`; Run: on a stream of the caller; Forward: returns when it is done.
  absl::StatusOr<PendingCollective> Start(
      absl::Span<const void* const> blocks, absl::Span<void* const> padded,
      absl::Span<const Event> after = {}) const;
  absl::Status Run(absl::Span<const void* const> blocks,
                   absl::Span<void* const> padded, Stream& stream) const;
  absl::Status Forward(absl::Span<const void* const> blocks,
                       absl::Span<void* const> padded) const;

  // The adjoint: fills `block_gradients` from `padded_gradients`, which are
  // changed only in place.
  absl::StatusOr<PendingCollective> StartBackward(
      absl::Span<void* const> padded_gradients,
      absl::Span<void* const> block_gradients,
      absl::Span<const Event> after = {}) const;
  absl::Status RunBackward(absl::Span<void* const> padded_gradients,
                           absl::Span<void* const> block_gradients,
                           Stream& stream) const;
  absl::Status Backward(absl::Span<void* const> padded_gradients,
                        absl::Span<void* const> block_gradients) const;

  // Copies the blocks out of padded tensors, without communication; its adjoint
  // is to put zeros around a block. Run: on a stream of the caller.
  absl::Status Trim(absl::Span<const void* const> padded,
                    absl::Span<void* const> blocks) const;
  absl::Status RunTrim(absl::Span<const void* const> padded,
                       absl::Span<void* const> blocks, Stream& stream) const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_HALO_EXCHANGE_H_

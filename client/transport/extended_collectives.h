// Collectives beyond those of the public Communicator. Every extended
// communicator has the mean; not every one has the others, so callers ask
// first. They call the functions at the end of this file.
//
// In a mean of some ranks the others contribute zeros, and the sum is divided
// by the number of the former before it is rounded.
//
// A sum in pairs adds neighbours first, then their sums, and so on:
//
//   ranks  0   1   2   3      out[i] = ((0 + 1) + (2 + 3)) * factor
//           └─┬─┘   └─┬─┘
//             └───┬───┘
//
// So if each rank's input is itself such a sum, the bits do not depend on the
// number of ranks.
//
// A checked all-reduce also computes the finite check of its result, without
// another pass over memory: for the global norm of gradients.
//
//   data  [ 0's slice | 1's slice      | 2's slice | not checked ]
//                      └ part ┘└ part ┘
//                         │       └─ rank 1 adds the check of this to one total
//                         └───────── and of this to another
//
// Each rank checks parts of the slice that it reduces (ReduceSliceOf,
// collective_op.h), so each element is checked once.
//
// Boxes of tensors may be sent without a buffer for the message, which
// box_message.h describes: in shared memory the receiver copies them from the
// sender's tensors to its own.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_EXTENDED_COLLECTIVES_H_
#define LOCKSTEP_CLIENT_TRANSPORT_EXTENDED_COLLECTIVES_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"
#include "lockstep/communicator.h"

namespace lockstep::transport {

class ExtendedCommunicator : public Communicator {
 public:
  // Needs 1, 2, 4, ... ranks, and support by the transport. Identical on all
  // ranks.
  virtual bool SumsInPairs() const = 0;
  // True if ranks reduce in shared memory. Identical on all ranks.
  virtual bool CanCheck() const = 0;
  // True if SendBoxes and RecvBoxes may be called. Identical on all ranks.
  virtual bool MovesBoxes() const = 0;
  // True if a mean of floats is a sum, and then a pass of its own over this
  // rank's result, which multiplies it by 1 / ranks (kernels::Scale). So a rank
  // may call for a sum and multiply later, in a pass that it needs anyway,
  // while other ranks call for the mean: the bits are the same.
  virtual bool ScalesInOwnPass() const = 0;

  // Implemented by transports, called by the functions below, which check
  // SumsInPairs, CanCheck and MovesBoxes first.
  virtual absl::Status AllReduceMean(void* data, size_t count, DType dtype,
                                     int divisor, Stream& stream) = 0;
  virtual absl::Status AllReducePairs(const void* in, void* out, size_t count,
                                      DType dtype, double factor,
                                      Stream& stream) = 0;
  virtual absl::Status CheckedAllReduce(void* data, size_t count, DType dtype,
                                        ReduceOp op,
                                        std::vector<CheckedPart> checks,
                                        Stream& stream) = 0;
  virtual absl::Status CheckedAllReducePairs(void* data, size_t count,
                                             DType dtype, double factor,
                                             std::vector<CheckedPart> checks,
                                             Stream& stream) = 0;
  virtual absl::Status SendBoxes(void* packed, BoxOperands boxes, int peer,
                                 Stream& stream) = 0;
  virtual absl::Status RecvBoxes(void* packed, BoxOperands boxes, int peer,
                                 Stream& stream) = 0;

 protected:
  ExtendedCommunicator() = default;
};

// False for communicators that are not extended.
inline bool SumsInPairs(const Communicator& communicator) {
  const auto* extended =
      dynamic_cast<const ExtendedCommunicator*>(&communicator);
  return extended != nullptr && extended->SumsInPairs();
}
inline bool CanCheck(const Communicator& communicator) {
  const auto* extended =
      dynamic_cast<const ExtendedCommunicator*>(&communicator);
  return extended != nullptr && extended->CanCheck();
}
inline bool MovesBoxes(const Communicator& communicator) {
  const auto* extended =
      dynamic_cast<const ExtendedCommunicator*>(&communicator);
  return extended != nullptr && extended->MovesBoxes();
}
inline bool ScalesInOwnPass(const Communicator& communicator) {
  const auto* extended =
      dynamic_cast<const ExtendedCommunicator*>(&communicator);
  return extended != nullptr && extended->ScalesInOwnPass();
}

// AllReduce in place of floats with ReduceOp::kMean, which divides the sum by
// `divisor` (the same on all ranks) instead of the number of ranks. Errors: as
// Communicator's; InvalidArgument for a divisor below 1; Unimplemented, with
// nothing enqueued, for a communicator that is not extended.
inline absl::Status AllReduceMean(Communicator& communicator, void* data,
                                  size_t count, DType dtype, int divisor,
                                  Stream& stream) {
  if (divisor < 1) {
    return absl::InvalidArgumentError("a mean divides by 1 or more");
  }
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr) {
    return absl::UnimplementedError("this group has no mean of some ranks");
  }
  return extended->AllReduceMean(data, count, dtype, divisor, stream);
}

// out[i] = (the sum over ranks of in[i], in pairs) * factor, of f32 or f64.
// `factor` is the same on all ranks. In place means in == out. Errors: as
// Communicator's; Unimplemented, with nothing enqueued, unless SumsInPairs.
inline absl::Status AllReducePairs(Communicator& communicator, const void* in,
                                   void* out, size_t count, DType dtype,
                                   double factor, Stream& stream) {
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr || !extended->SumsInPairs()) {
    return absl::UnimplementedError("this group cannot sum in pairs");
  }
  return extended->AllReducePairs(in, out, count, dtype, factor, stream);
}

// AllReduce in place, of floats. Adds kernels::CheckFinite of each part to its
// total, with the same bits, before `stream` continues. Other ranks may call
// AllReduce instead. If the operation fails, the totals are unspecified: parts
// reduced before may have been added. Errors: as Communicator's; Unimplemented,
// with nothing enqueued, unless CanCheck.
inline absl::Status CheckedAllReduce(Communicator& communicator, void* data,
                                     size_t count, DType dtype, ReduceOp op,
                                     std::vector<CheckedPart> checks,
                                     Stream& stream) {
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr || !extended->CanCheck()) {
    return absl::UnimplementedError("this group cannot check what it sums");
  }
  return extended->CheckedAllReduce(data, count, dtype, op, std::move(checks),
                                    stream);
}

// The same for AllReducePairs in place; needs SumsInPairs and CanCheck.
inline absl::Status CheckedAllReducePairs(Communicator& communicator,
                                          void* data, size_t count, DType dtype,
                                          double factor,
                                          std::vector<CheckedPart> checks,
                                          Stream& stream) {
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr || !extended->SumsInPairs() ||
      !extended->CanCheck()) {
    return absl::UnimplementedError(
        "this group cannot check what it sums in pairs");
  }
  return extended->CheckedAllReducePairs(data, count, dtype, factor,
                                         std::move(checks), stream);
}

// Send of the message's bytes, of which those in boxes.message->copies are not
// in `packed` yet: the receiver reads them where they are, or the transport
// packs them there. The peer calls RecvBoxes with equal boxes. Errors: as
// Communicator's; Unimplemented, with nothing enqueued, unless MovesBoxes.
inline absl::Status SendBoxes(Communicator& communicator, void* packed,
                              BoxOperands boxes, int peer, Stream& stream) {
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr || !extended->MovesBoxes()) {
    return absl::UnimplementedError("this group cannot send boxes");
  }
  return extended->SendBoxes(packed, std::move(boxes), peer, stream);
}

// The counterpart of SendBoxes, and of a Send of as many bytes, which are the
// packed message. The contents of `packed` are unspecified then, unless there
// are no copies: it is the boxes' memory.
inline absl::Status RecvBoxes(Communicator& communicator, void* packed,
                              BoxOperands boxes, int peer, Stream& stream) {
  auto* const extended = dynamic_cast<ExtendedCommunicator*>(&communicator);
  if (extended == nullptr || !extended->MovesBoxes()) {
    return absl::UnimplementedError("this group cannot receive boxes");
  }
  return extended->RecvBoxes(packed, std::move(boxes), peer, stream);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_EXTENDED_COLLECTIVES_H_

// Collectives beyond the public Communicator's. All but the mean not every
// transport has: callers ask first, and then call the functions at the end of
// this file.
//
// A mean of some ranks is the mean of what they give while the other ranks give
// zeros: the sum of all is divided by their number, before it is rounded.
//
// A sum in pairs adds neighbours first, then their sums, and so on:
//
//   ranks  0   1   2   3      out[i] = ((0 + 1) + (2 + 3)) * factor
//           └─┬─┘   └─┬─┘
//             └───┬───┘
//
// So where each rank's part is itself such a sum, the bits do not depend on how
// many ranks made them.
//
// A checked all-reduce looks at what it sums while it has it at hand: for the
// global norm of gradients, without another pass over memory.
//
//   data  [ 0's slice | 1's slice      | 2's slice | not checked ]
//                      └ part ┘└ part ┘
//                         │       └─ rank 1 adds the check of this to one total
//                         └───────── and of this to another
//
// Each rank checks parts of what it folds (ReduceSliceOf, call.h): together,
// every element once.

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
  // For 1, 2, 4, ... ranks whose transport has a way: on all ranks, or none.
  virtual bool SumsInPairs() const = 0;
  // It pays where ranks fold in memory: on all ranks, or none.
  virtual bool CanCheck() const = 0;

  // For transports to implement and the functions below to call: each is called
  // only if the communicator has said that it can, where that is asked.
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

 protected:
  ExtendedCommunicator() = default;
};

// False of communicators that are not extended.
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

// AllReduce in place of floats with ReduceOp::kMean, where the sum is divided
// by `divisor`, the same on all ranks, instead of by their number. Errors: as
// Communicator's; InvalidArgument for a divisor below 1; Unimplemented, with
// nothing enqueued, of a communicator that is not extended.
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

// AllReduce in place, of floats. What is added to each total, before `stream`
// goes on, has the bits of kernels::CheckFinite over the part. Other ranks may
// call AllReduce instead. Of an operation that fails, a total says nothing: a
// part that was folded by then may have been added. Errors: as Communicator's;
// Unimplemented, with nothing enqueued, unless CanCheck.
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

// AllReducePairs in place, likewise; if SumsInPairs and CanCheck.
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

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_EXTENDED_COLLECTIVES_H_

// Images that are cut over rows: each rank of a domain has a block of rows of
// every image, from the first convolution to the first dense layer.
//
//   rank 0  rows 0-3 ─conv─▶ rows 0-3 ─pool─▶ rows 0-1 ... ─┐
//              ▲▼ halos                                     ├─gather─▶ all rows
//   rank 1  rows 4-7 ─conv─▶ rows 4-7 ─pool─▶ rows 2-3 ... ─┘
//
// A convolution needs one row of each neighbour: its frame. The dense layers
// are computed by all ranks of the domain alike.
//
// Threads: those of the network that uses it.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_ROW_DOMAIN_H_
#define LOCKSTEP_EXAMPLES_DIGITS_ROW_DOMAIN_H_

#include <string>

#include "examples/digits/tensor.h"

namespace lockstep::digits {

// What a rank's network asks of the other ranks of its domain. All of them call
// the same in the same order. After an error results are unspecified; the owner
// of the domain knows it.
template <typename T>
class RowDomain {
 public:
  virtual ~RowDomain() = default;

  virtual int size() const = 0;   // ranks
  virtual int index() const = 0;  // of this one

  // The rows of a convolution's input in their frame (correlation.h): rows of
  // the neighbours above and below, zeros elsewhere.
  virtual Tensor<T> Frame(const std::string& layer, const Tensor<T>& rows) = 0;
  // The adjoint of Frame: from the gradient of the frame to that of the rows.
  virtual Tensor<T> FrameAdjoint(const std::string& layer,
                                 const Tensor<T>& d_frame) = 0;
  // All rows, on every rank.
  virtual Tensor<T> Gather(const Tensor<T>& rows) = 0;
};

// The rows of the whole images that rank `index` of `size` has. The height must
// be a multiple of `size`.
template <typename T>
Tensor<T> OwnRows(const Tensor<T>& images, int index, int size);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_ROW_DOMAIN_H_

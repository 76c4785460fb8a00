// Copies a list of boxes in steps of bounded length, so that other tasks of a
// batch advance in between.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_COPY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/strided_box.h"

namespace lockstep::transport {

class BoxCopy {
 public:
  // `boxes`: simplified, with an element each. The lists live as long as this.
  BoxCopy(std::span<const kernels::StridedBox> boxes,
          std::span<const void* const> in, std::span<void* const> out)
      : boxes_(boxes), in_(in), out_(out) {}

  // Copies up to `bytes` more bytes, at least an element; true when all are
  // copied.
  bool Step(size_t bytes);

 private:
  const std::span<const kernels::StridedBox> boxes_;
  const std::span<const void* const> in_;
  const std::span<void* const> out_;
  size_t box_ = 0;       // the first that is not done
  int64_t element_ = 0;  // of it, in row-major order
};

// The part of a simplified box that begins with element `first`, in row-major
// order, and has at most `count` elements: as many as one box can have. Both
// are in the box, and `count` is at least 1.
kernels::StridedBox PartOf(const kernels::StridedBox& box, int64_t first,
                           int64_t count);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_COPY_H_

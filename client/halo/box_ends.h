// Where the boxes of a halo exchange are in a rank's tensors, its buffer and
// its messages. Memories are numbered as box_lists.h says.
//
// Threads: any; constant.

#ifndef LOCKSTEP_CLIENT_HALO_BOX_ENDS_H_
#define LOCKSTEP_CLIENT_HALO_BOX_ENDS_H_

#include <cstdint>
#include <vector>

#include "client/transport/common/box_message.h"
#include "kernels/strided_box.h"
#include "plan/halo/halo.h"

namespace lockstep::halo {

// One end of a box: a dense tensor, or a message.
struct BoxEnd {
  int memory = 0;
  int64_t offset = 0;                          // bytes
  int64_t strides[kernels::kBoxDimsMax] = {};  // elements
};

class BoxEnds {
 public:
  // `coordinates`: of the rank in halo.mesh. `halo` must live as long as this.
  BoxEnds(const plan::Halo& halo, const std::vector<int>& coordinates,
          bool in_place);

  // The number of the buffer of messages.
  int buffer() const { return buffer_; }

  // Whether the box is the whole block, copied to the interior.
  bool IsCenter(const plan::HaloBox& box) const;
  // The cells that the box copies from and to, in its order.
  BoxEnd InBlock(const plan::HaloBox& box) const;
  BoxEnd InPadded(const plan::HaloBox& box) const;

 private:
  struct Shape {
    std::vector<int64_t> padded, block;  // strides
    std::vector<int64_t> low;
  };

  int64_t SizeOfElement(const plan::HaloBox& box) const {
    return static_cast<int64_t>(SizeOf(halo_.fields[box.field].dtype));
  }

  const plan::Halo& halo_;
  const bool in_place_;
  std::vector<Shape> shapes_;
  int first_block_ = 0;
  int buffer_ = 0;
};

// Packed at `offset` of a memory; dimensions of step 0 once.
BoxEnd PackedEnd(const plan::HaloBox& box, int memory, int64_t offset);

// The box from one end to the other one. A dimension of step 0 is copied from
// one cell, or summed to one: by its stride of 0 at that end. Where both ends
// have it once, it is left out.
kernels::StridedBox JoinedBox(const plan::HaloBox& box, DType dtype,
                              const BoxEnd& in, const BoxEnd& out, bool sums);

// One end of a box of a message. `once`: dimensions of step 0 are left out.
transport::MessageBox MessageBoxAt(const plan::HaloBox& box, DType dtype,
                                   const BoxEnd& end, bool once);

}  // namespace lockstep::halo

#endif  // LOCKSTEP_CLIENT_HALO_BOX_ENDS_H_

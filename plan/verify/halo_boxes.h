// Checks the boxes of one member of a halo exchange against the edge rules of
// its fields (halo_spec.h), cell by cell in effect, box by box in time:
//
//   in one dimension a rule has at most a few pieces, on each of which the
//   source of cell g is g + a, a - g or a
//
//   reflect     before the field -g       in it g    after it 2 (N - 1) - g
//   replicate   before the field 0        in it g    after it N - 1
//   periodic    in [k N, (k + 1) N)       g - k N
//
// So a segment in one piece, with the slope of the piece, is right if its first
// and its last cell are.

#ifndef LOCKSTEP_PLAN_VERIFY_HALO_BOXES_H_
#define LOCKSTEP_PLAN_VERIFY_HALO_BOXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plan/halo/halo.h"

namespace lockstep::plan {

// The fields of the exchange must have passed (halos.h); `halo` outlives this.
class HaloBoxCheck {
 public:
  HaloBoxCheck(const Halo& halo, int member);

  // The first fault of the member's boxes, empty if there is none: they tile
  // each padded block, and each copies the right cells of the right member, or
  // is filled with the right constant; messages have ascending peers and their
  // bytes. The boxes of `sends` are only counted: the receivers check them.
  std::string FaultOf(const HaloRoutes& routes) const;

 private:
  // The member's part of one dimension. Cells have their numbers in the whole
  // dimension; those before its edge are negative.
  struct Part {
    const HaloExtent* extent = nullptr;
    int64_t first = 0;  // cell of the padded block
    int64_t count = 0;  // cells of the padded block
  };

  std::string ShapeFault(const HaloBox& box) const;
  std::string CopyFault(const HaloBox& box, int owner) const;
  std::string FillFault(const HaloFill& fill) const;
  std::string MessagesFault(const std::vector<HaloMessage>& messages) const;
  std::string TilingFault(const HaloRoutes& routes) const;
  std::string OwnerFault(const HaloField& field, int owner) const;

  const Halo& halo_;
  const int member_;
  std::vector<std::vector<Part>> parts_;  // by field and dimension
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_HALO_BOXES_H_

// Halo exchanges in a plan: the fields that a group of ranks holds in blocks,
// and for every rank which cells it copies from where.
//
//   field, cut in 3         bounds 0 4 7 10
//   rank 1, low 1, high 1   own block {in 0, out 1, count 3}
//                           from rank 0 {in 3, out 0, count 1}
//                           from rank 2 {in 0, out 4, count 1}
//
// A box is the product of one segment of each dimension. A rank's padded block
// is tiled by its boxes: those of its own block, those that it receives, and
// those that are constant.

#ifndef LOCKSTEP_PLAN_HALO_HALO_H_
#define LOCKSTEP_PLAN_HALO_HALO_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/dtype.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"

namespace lockstep::plan {

// One dimension of a field.
struct HaloExtent {
  int axis = -1;                // cuts it: axis of Halo::mesh; -1: not cut
  std::vector<int64_t> bounds;  // block i is [bounds[i], bounds[i + 1])
  int64_t low = 0;
  int64_t high = 0;
  HaloEdge edge = HaloEdge::kZero;
  double constant = 0;  // kConstant, else 0
  bool operator==(const HaloExtent&) const = default;
};

// A tensor of the whole group.
struct HaloField {
  DType dtype = DType::kF32;
  std::vector<HaloExtent> dims;
  bool operator==(const HaloField&) const = default;
};

// An exchange of one group of ranks. Ranks are positions in the group.
struct Halo {
  std::string name;        // once on each rank
  Mesh mesh;               // the axes that cut it, in the order of the job's
  std::vector<int> ranks;  // world ranks, in the order of `mesh`
  int communicator = -1;   // of these ranks; -1: one rank alone
  std::vector<HaloField> fields;
  bool operator==(const Halo&) const = default;
};

// Cells out, out + 1, ... of a padded block, `count` of them, are the cells
// in, in + step, ... of the block that they come from.
struct HaloSegment {
  int64_t in = 0;
  int64_t out = 0;
  int64_t count = 1;
  int step = 1;  // 1; -1: reversed; 0: all are cell `in`
  bool operator==(const HaloSegment&) const = default;
};

struct HaloBox {
  int field = 0;
  std::vector<HaloSegment> dims;
  bool operator==(const HaloBox&) const = default;
};

// Cells without a source: `in` and `step` are 0.
struct HaloFill {
  HaloBox box;
  double value = 0;
  bool operator==(const HaloFill&) const = default;
};

// The cells of one rank's block that another one receives: packed in the order
// of the boxes, each row-major in the order of the padded block, dimensions of
// step 0 once, and each box beginning at a multiple of kHaloBoxAlignment bytes.
inline constexpr int64_t kHaloBoxAlignment = 16;
struct HaloMessage {
  int peer = -1;  // rank of the group
  int64_t bytes = 0;
  std::vector<HaloBox> boxes;
  bool operator==(const HaloMessage&) const = default;
};

// The boxes of a rank's padded blocks in one exchange: at most this many.
inline constexpr size_t kHaloBoxesMax = 4096;

// One rank's part of an exchange. Messages are in the order of their peers, at
// most one each. In the adjoint `receives` are sent and `sends` are received.
struct HaloRoutes {
  int halo = -1;             // index in Plan::halos
  std::vector<HaloBox> own;  // from its own block
  std::vector<HaloFill> fills;
  std::vector<HaloMessage> sends;
  std::vector<HaloMessage> receives;
  bool operator==(const HaloRoutes&) const = default;
};

// The block of a member in a dimension: 0 if no axis cuts it. `coordinates`: of
// the member in Halo::mesh.
int BlockOf(const HaloExtent& extent, const std::vector<int>& coordinates);

// The cells that the padded block has before and after a block: low and high,
// or fewer at an edge without a rule (kNone).
int64_t LowOf(const HaloExtent& extent, int block);
int64_t HighOf(const HaloExtent& extent, int block);

std::vector<int64_t> BlockShape(const HaloField& field,
                                const std::vector<int>& coordinates);
std::vector<int64_t> PaddedShape(const HaloField& field,
                                 const std::vector<int>& coordinates);

// Bytes of a box in a message, without alignment.
int64_t PackedBytes(const HaloBox& box, DType dtype);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_HALO_HALO_H_

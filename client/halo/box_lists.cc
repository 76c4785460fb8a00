#include "client/halo/box_lists.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/constant.h"

namespace lockstep::halo {
namespace {

using kernels::BoxFill;
using kernels::StridedBox;
using plan::HaloBox;
using plan::HaloSegment;

// Messages begin at a multiple of it in the buffer.
constexpr int64_t kMessageAlignment = 64;

int64_t AlignedUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// One end of a box: a dense tensor, or a message.
struct BoxEnd {
  int memory = 0;
  int64_t offset = 0;  // bytes
  int64_t strides[kernels::kBoxDimsMax] = {};
};

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) {
    strides[d - 2] = strides[d - 1] * shape[d - 1];
  }
  return strides;
}

class ListMaker {
 public:
  ListMaker(const plan::Halo& halo, const std::vector<int>& coordinates,
            bool in_place)
      : halo_(halo), in_place_(in_place) {
    for (const plan::HaloField& field : halo.fields) {
      Shape& shape = shapes_.emplace_back();
      shape.padded = DenseStrides(plan::PaddedShape(field, coordinates));
      shape.block = in_place
                        ? shape.padded
                        : DenseStrides(plan::BlockShape(field, coordinates));
      for (const plan::HaloExtent& extent : field.dims) {
        shape.low.push_back(
            plan::LowOf(extent, plan::BlockOf(extent, coordinates)));
      }
    }
    const int fields = static_cast<int>(halo.fields.size());
    first_block_ = in_place ? 0 : fields;
    buffer_ = in_place ? fields : 2 * fields;
  }

  PassLists Forward(const plan::HaloRoutes& routes) {
    for (const plan::HaloFill& fill : routes.fills) AddFill(fill);
    for (const HaloBox& box : routes.own) {
      if (in_place_ && IsCenter(box)) continue;
      lists_.copies_before.push_back(
          Made(box, InBlock(box), InPadded(box), /*sums=*/false));
    }
    for (const plan::HaloMessage& message : routes.sends) {
      Pack(message, lists_.copies_before,
           [this](const HaloBox& box) { return InBlock(box); });
    }
    for (const plan::HaloMessage& message : routes.receives) {
      Unpack(message);
    }
    return std::move(lists_);
  }

  PassLists Adjoint(const plan::HaloRoutes& routes) {
    for (const HaloBox& box : routes.own) {
      if (!IsCenter(box)) {
        AddApart(Made(box, InPadded(box), InBlock(box), /*sums=*/true), box,
                 &lists_.adds_before, &added_);
      } else if (!in_place_) {
        lists_.copies_before.push_back(
            Made(box, InPadded(box), InBlock(box), /*sums=*/false));
      }
    }
    for (const plan::HaloMessage& message : routes.receives) {
      Pack(message, lists_.sums_before,
           [this](const HaloBox& box) { return InPadded(box); });
    }
    added_.clear();
    for (const plan::HaloMessage& message : routes.sends) Accumulate(message);
    return std::move(lists_);
  }

  std::vector<StridedBox> Trim(const std::vector<int>& coordinates) {
    std::vector<StridedBox> copies;
    for (size_t f = 0; f < halo_.fields.size(); ++f) {
      HaloBox center{.field = static_cast<int>(f)};
      const std::vector<int64_t> shape =
          plan::BlockShape(halo_.fields[f], coordinates);
      for (size_t d = 0; d < shape.size(); ++d) {
        center.dims.push_back({.out = shapes_[f].low[d], .count = shape[d]});
      }
      copies.push_back(
          Made(center, InPadded(center), InBlock(center), /*sums=*/false));
    }
    return copies;
  }

 private:
  struct Shape {
    std::vector<int64_t> padded, block;  // strides
    std::vector<int64_t> low;
  };
  // The cells of a block that a box adds to.
  struct Target {
    int field;
    std::vector<std::pair<int64_t, int64_t>> ranges;  // first, last
  };

  int64_t SizeOfElement(const HaloBox& box) const {
    return static_cast<int64_t>(SizeOf(halo_.fields[box.field].dtype));
  }

  // The box that is the whole block, copied to the interior.
  bool IsCenter(const HaloBox& box) const {
    for (size_t d = 0; d < box.dims.size(); ++d) {
      const HaloSegment& s = box.dims[d];
      if (s.step != 1 || s.out - s.in != shapes_[box.field].low[d]) {
        return false;
      }
    }
    return true;
  }

  // The cells `in`, in the order of the box.
  BoxEnd InBlock(const HaloBox& box) const {
    const Shape& shape = shapes_[box.field];
    BoxEnd end{.memory = first_block_ + box.field};
    for (size_t d = 0; d < box.dims.size(); ++d) {
      const HaloSegment& s = box.dims[d];
      const int64_t first = s.in + (in_place_ ? shape.low[d] : 0);
      end.offset += first * shape.block[d];
      end.strides[d] = s.step * shape.block[d];
    }
    end.offset *= SizeOfElement(box);
    return end;
  }

  BoxEnd InPadded(const HaloBox& box) const {
    const Shape& shape = shapes_[box.field];
    BoxEnd end{.memory = box.field};
    for (size_t d = 0; d < box.dims.size(); ++d) {
      end.offset += box.dims[d].out * shape.padded[d];
      end.strides[d] = shape.padded[d];
    }
    end.offset *= SizeOfElement(box);
    return end;
  }

  // Packed at `offset` of the buffer; dimensions of step 0 once.
  BoxEnd InBuffer(const HaloBox& box, int64_t offset) const {
    BoxEnd end{.memory = buffer_, .offset = offset};
    int64_t stride = 1;
    for (size_t d = box.dims.size(); d-- > 0;) {
      if (box.dims[d].step == 0) continue;
      end.strides[d] = stride;
      stride *= box.dims[d].count;
    }
    return end;
  }

  // A dimension of step 0 is copied from one cell, or summed to one: by its
  // stride of 0 at that end. Where both ends have it once, it is left out.
  StridedBox Made(const HaloBox& box, const BoxEnd& in, const BoxEnd& out,
                  bool sums) const {
    StridedBox made{.dtype = halo_.fields[box.field].dtype,
                    .in_memory = in.memory,
                    .out_memory = out.memory,
                    .dims = static_cast<int>(box.dims.size()),
                    .in_offset = in.offset,
                    .out_offset = out.offset};
    for (size_t d = 0; d < box.dims.size(); ++d) {
      made.counts[d] = box.dims[d].count;
      made.in_strides[d] = in.strides[d];
      made.out_strides[d] = out.strides[d];
      if (!sums && out.strides[d] == 0) made.counts[d] = 1;
    }
    return kernels::Simplified(made);
  }

  void AddFill(const plan::HaloFill& fill) {
    const BoxEnd out = InPadded(fill.box);
    BoxFill made{.dtype = halo_.fields[fill.box.field].dtype,
                 .out_memory = out.memory,
                 .dims = static_cast<int>(fill.box.dims.size()),
                 .out_offset = out.offset};
    for (size_t d = 0; d < fill.box.dims.size(); ++d) {
      made.counts[d] = fill.box.dims[d].count;
      made.out_strides[d] = out.strides[d];
    }
    kernels::WriteConstant(fill.value, made.dtype, made.value);
    lists_.fills.push_back(made);
  }

  MemoryRange TakeBuffer(int64_t bytes) {
    const MemoryRange range{buffer_, lists_.buffer_bytes, bytes};
    lists_.buffer_bytes += AlignedUp(bytes, kMessageAlignment);
    return range;
  }

  // A message that is one run of `end`'s memory.
  static bool IsRun(const plan::HaloMessage& message, const StridedBox& packed,
                    int64_t stride) {
    return message.boxes.size() == 1 &&
           (packed.dims == 0 || (packed.dims == 1 && stride == 1));
  }

  template <typename From>
  void Pack(const plan::HaloMessage& message, std::vector<StridedBox>& list,
            From from) {
    const bool sums = &list == &lists_.sums_before;
    const HaloBox& first = message.boxes[0];
    const StridedBox one = Made(first, from(first), InBuffer(first, 0), sums);
    const bool same_dims = one.dims == 0 || one.out_strides[0] == 1;
    if (IsRun(message, one, one.in_strides[0]) && same_dims) {
      lists_.operands.push_back({one.in_memory, one.in_offset, message.bytes});
      return;
    }
    const MemoryRange range = TakeBuffer(message.bytes);
    lists_.operands.push_back(range);
    ForEachBox(message, range.offset, [&](const HaloBox& box, int64_t at) {
      list.push_back(Made(box, from(box), InBuffer(box, at), sums));
    });
  }

  void Unpack(const plan::HaloMessage& message) {
    const HaloBox& first = message.boxes[0];
    const StridedBox one =
        Made(first, InBuffer(first, 0), InPadded(first), /*sums=*/false);
    const bool same_dims = one.dims == 0 || one.in_strides[0] == 1;
    if (IsRun(message, one, one.out_strides[0]) && same_dims) {
      lists_.operands.push_back(
          {one.out_memory, one.out_offset, message.bytes});
      return;
    }
    const MemoryRange range = TakeBuffer(message.bytes);
    lists_.operands.push_back(range);
    ForEachBox(message, range.offset, [&](const HaloBox& box, int64_t at) {
      lists_.copies_then.push_back(
          Made(box, InBuffer(box, at), InPadded(box), /*sums=*/false));
    });
  }

  void Accumulate(const plan::HaloMessage& message) {
    const MemoryRange range = TakeBuffer(message.bytes);
    lists_.operands.push_back(range);
    ForEachBox(message, range.offset, [&](const HaloBox& box, int64_t at) {
      HaloBox once = box;  // the sender has summed dimensions of step 0
      for (HaloSegment& s : once.dims) {
        if (s.step == 0) s.count = 1;
      }
      AddApart(Made(once, InBuffer(once, at), InBlock(once), /*sums=*/true),
               once, &lists_.adds_then, &added_);
    });
  }

  template <typename Body>
  void ForEachBox(const plan::HaloMessage& message, int64_t offset, Body body) {
    for (const HaloBox& box : message.boxes) {
      body(box, offset);
      offset += AlignedUp(plan::PackedBytes(box, halo_.fields[box.field].dtype),
                          plan::kHaloBoxAlignment);
    }
  }

  static Target TargetOf(const HaloBox& box) {
    Target target{.field = box.field};
    for (const HaloSegment& s : box.dims) {
      const int64_t last = s.in + s.step * (s.count - 1);
      target.ranges.emplace_back(std::min(s.in, last), std::max(s.in, last));
    }
    return target;
  }

  static bool Overlap(const Target& a, const Target& b) {
    if (a.field != b.field) return false;
    for (size_t d = 0; d < a.ranges.size(); ++d) {
      if (a.ranges[d].second < b.ranges[d].first ||
          b.ranges[d].second < a.ranges[d].first) {
        return false;
      }
    }
    return true;
  }

  // Adds the box to the first list behind all lists whose boxes it overlaps, so
  // each cell gets its summands in the order of the calls.
  static void AddApart(const StridedBox& box, const HaloBox& of,
                       std::vector<std::vector<StridedBox>>* lists,
                       std::vector<std::vector<Target>>* targets) {
    Target target = TargetOf(of);
    size_t list = lists->size();
    const auto overlaps = [&](const Target& other) {
      return Overlap(target, other);
    };
    while (list > 0 && std::none_of((*targets)[list - 1].begin(),
                                    (*targets)[list - 1].end(), overlaps)) {
      --list;
    }
    if (list == lists->size()) {
      lists->emplace_back();
      targets->emplace_back();
    }
    (*lists)[list].push_back(box);
    (*targets)[list].push_back(std::move(target));
  }

  const plan::Halo& halo_;
  const bool in_place_;
  std::vector<Shape> shapes_;
  int first_block_ = 0;
  int buffer_ = 0;
  PassLists lists_;
  std::vector<std::vector<Target>> added_;  // of the lists being made
};

}  // namespace

PassLists MakeLists(const plan::Halo& halo, const plan::HaloRoutes& routes,
                    const std::vector<int>& coordinates, plan::HaloPass pass,
                    bool in_place) {
  ListMaker maker(halo, coordinates, in_place);
  return pass == plan::HaloPass::kForward ? maker.Forward(routes)
                                          : maker.Adjoint(routes);
}

std::vector<StridedBox> MakeTrimList(const plan::Halo& halo,
                                     const std::vector<int>& coordinates) {
  return ListMaker(halo, coordinates, /*in_place=*/false).Trim(coordinates);
}

}  // namespace lockstep::halo

#include "client/halo/box_lists.h"

#include <algorithm>
#include <utility>

#include "client/halo/box_ends.h"
#include "kernels/constant.h"

namespace lockstep::halo {
namespace {

using kernels::BoxFill;
using kernels::StridedBox;
using plan::HaloBox;
using plan::HaloSegment;
using transport::MessageBox;

// Messages begin at a multiple of it in the buffer.
constexpr int64_t kMessageAlignment = 64;

int64_t AlignedUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class ListMaker {
 public:
  ListMaker(const plan::Halo& halo, const std::vector<int>& coordinates,
            bool in_place, bool moves_boxes)
      : halo_(halo),
        in_place_(in_place),
        moves_boxes_(moves_boxes),
        ends_(halo, coordinates, in_place) {}

  PassLists Forward(const plan::HaloRoutes& routes) {
    for (const plan::HaloFill& fill : routes.fills) AddFill(fill);
    for (const HaloBox& box : routes.own) {
      if (in_place_ && ends_.IsCenter(box)) continue;
      lists_.copies_before.push_back(
          Made(box, ends_.InBlock(box), ends_.InPadded(box), /*sums=*/false));
    }
    for (const plan::HaloMessage& message : routes.sends) {
      Pack(message, lists_.copies_before,
           [this](const HaloBox& box) { return ends_.InBlock(box); });
    }
    for (const plan::HaloMessage& message : routes.receives) {
      Unpack(message);
    }
    return std::move(lists_);
  }

  PassLists Adjoint(const plan::HaloRoutes& routes) {
    for (const HaloBox& box : routes.own) {
      if (!ends_.IsCenter(box)) {
        AddApart(
            Made(box, ends_.InPadded(box), ends_.InBlock(box), /*sums=*/true),
            box, &lists_.adds_before, &added_);
      } else if (!in_place_) {
        lists_.copies_before.push_back(
            Made(box, ends_.InPadded(box), ends_.InBlock(box), /*sums=*/false));
      }
    }
    for (const plan::HaloMessage& message : routes.receives) {
      Pack(message, lists_.sums_before,
           [this](const HaloBox& box) { return ends_.InPadded(box); });
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
        const plan::HaloExtent& extent = halo_.fields[f].dims[d];
        center.dims.push_back(
            {.out = plan::LowOf(extent, plan::BlockOf(extent, coordinates)),
             .count = shape[d]});
      }
      copies.push_back(Made(center, ends_.InPadded(center),
                            ends_.InBlock(center), /*sums=*/false));
    }
    return copies;
  }

 private:
  // The cells of a block that a box adds to.
  struct Target {
    int field;
    std::vector<std::pair<int64_t, int64_t>> ranges;  // first, last
  };

  BoxEnd InBuffer(const HaloBox& box, int64_t offset) const {
    return PackedEnd(box, ends_.buffer(), offset);
  }
  static BoxEnd InMessage(const HaloBox& box, int64_t offset) {
    return PackedEnd(box, /*memory=*/0, offset);
  }
  StridedBox Made(const HaloBox& box, const BoxEnd& in, const BoxEnd& out,
                  bool sums) const {
    return JoinedBox(box, halo_.fields[box.field].dtype, in, out, sums);
  }
  MessageBox OneEnd(const HaloBox& box, const BoxEnd& end, bool once) const {
    return MessageBoxAt(box, halo_.fields[box.field].dtype, end, once);
  }

  void AddFill(const plan::HaloFill& fill) {
    const BoxEnd out = ends_.InPadded(fill.box);
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
    const MemoryRange range{ends_.buffer(), lists_.buffer_bytes, bytes};
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
      AddOperand({one.in_memory, one.in_offset, message.bytes});
      return;
    }
    const MemoryRange range = TakeBuffer(message.bytes);
    std::vector<MessageBox> boxes;
    std::vector<StridedBox> copies;
    ForEachBox(message, [&](const HaloBox& box, int64_t at) {
      const BoxEnd in = from(box), buffer = InBuffer(box, range.offset + at);
      if (moves_boxes_ && !(sums && IsSummed(box))) {
        boxes.push_back(OneEnd(box, in, sums));
        copies.push_back(Made(box, in, InMessage(box, at), /*sums=*/false));
      } else {
        boxes.push_back(OneEnd(box, buffer, sums));
        list.push_back(Made(box, in, buffer, sums));
      }
    });
    if (copies.empty()) boxes.clear();
    AddOperand(range, std::move(boxes), std::move(copies));
  }

  void Unpack(const plan::HaloMessage& message) {
    const HaloBox& first = message.boxes[0];
    const StridedBox one =
        Made(first, InBuffer(first, 0), ends_.InPadded(first), /*sums=*/false);
    const bool same_dims = one.dims == 0 || one.in_strides[0] == 1;
    if (IsRun(message, one, one.out_strides[0]) && same_dims) {
      AddOperand({one.out_memory, one.out_offset, message.bytes},
                 {OneEnd(first, ends_.InPadded(first), /*once=*/false)}, {});
      return;
    }
    const MemoryRange range = TakeBuffer(message.bytes);
    std::vector<MessageBox> boxes;
    std::vector<StridedBox> copies;
    ForEachBox(message, [&](const HaloBox& box, int64_t at) {
      const BoxEnd out = ends_.InPadded(box);
      boxes.push_back(OneEnd(box, out, /*once=*/false));
      copies.push_back(Made(
          box,
          moves_boxes_ ? InMessage(box, at) : InBuffer(box, range.offset + at),
          out, /*sums=*/false));
    });
    if (!moves_boxes_) {
      lists_.copies_then.insert(lists_.copies_then.end(), copies.begin(),
                                copies.end());
    }
    AddOperand(range, std::move(boxes), std::move(copies));
  }

  void Accumulate(const plan::HaloMessage& message) {
    const MemoryRange range = TakeBuffer(message.bytes);
    std::vector<MessageBox> boxes;
    ForEachBox(message, [&](const HaloBox& box, int64_t at) {
      HaloBox once = box;  // the sender has summed dimensions of step 0
      for (HaloSegment& s : once.dims) {
        if (s.step == 0) s.count = 1;
      }
      const BoxEnd in = InBuffer(once, range.offset + at);
      boxes.push_back(OneEnd(once, in, /*once=*/true));
      AddApart(Made(once, in, ends_.InBlock(once), /*sums=*/true), once,
               &lists_.adds_then, &added_);
    });
    AddOperand(range, std::move(boxes), {});
  }

  void AddOperand(const MemoryRange& operand,
                  std::vector<MessageBox> boxes = {},
                  std::vector<StridedBox> copies = {}) {
    lists_.operands.push_back(operand);
    if (!moves_boxes_) return;
    lists_.messages.push_back(transport::MakeBoxMessage(
        std::move(boxes), std::move(copies), operand.bytes));
  }

  static bool IsSummed(const HaloBox& box) {
    return std::any_of(box.dims.begin(), box.dims.end(),
                       [](const HaloSegment& s) { return s.step == 0; });
  }

  // Calls body(box, its offset in the message).
  template <typename Body>
  void ForEachBox(const plan::HaloMessage& message, Body body) {
    int64_t offset = 0;
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
  const bool moves_boxes_;
  const BoxEnds ends_;
  PassLists lists_;
  std::vector<std::vector<Target>> added_;  // of the lists being made
};

}  // namespace

PassLists MakeLists(const plan::Halo& halo, const plan::HaloRoutes& routes,
                    const std::vector<int>& coordinates, plan::HaloPass pass,
                    bool in_place, bool moves_boxes) {
  ListMaker maker(halo, coordinates, in_place, moves_boxes);
  return pass == plan::HaloPass::kForward ? maker.Forward(routes)
                                          : maker.Adjoint(routes);
}

std::vector<StridedBox> MakeTrimList(const plan::Halo& halo,
                                     const std::vector<int>& coordinates) {
  return ListMaker(halo, coordinates, /*in_place=*/false,
                   /*moves_boxes=*/false)
      .Trim(coordinates);
}

}  // namespace lockstep::halo

#include "client/halo/box_ends.h"

namespace lockstep::halo {
namespace {

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) {
    strides[d - 2] = strides[d - 1] * shape[d - 1];
  }
  return strides;
}

}  // namespace

BoxEnds::BoxEnds(const plan::Halo& halo, const std::vector<int>& coordinates,
                 bool in_place)
    : halo_(halo), in_place_(in_place) {
  for (const plan::HaloField& field : halo.fields) {
    Shape& shape = shapes_.emplace_back();
    shape.padded = DenseStrides(plan::PaddedShape(field, coordinates));
    shape.block = in_place ? shape.padded
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

bool BoxEnds::IsCenter(const plan::HaloBox& box) const {
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const plan::HaloSegment& s = box.dims[d];
    if (s.step != 1 || s.out - s.in != shapes_[box.field].low[d]) return false;
  }
  return true;
}

BoxEnd BoxEnds::InBlock(const plan::HaloBox& box) const {
  const Shape& shape = shapes_[box.field];
  BoxEnd end{.memory = first_block_ + box.field};
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const plan::HaloSegment& s = box.dims[d];
    const int64_t first = s.in + (in_place_ ? shape.low[d] : 0);
    end.offset += first * shape.block[d];
    end.strides[d] = s.step * shape.block[d];
  }
  end.offset *= SizeOfElement(box);
  return end;
}

BoxEnd BoxEnds::InPadded(const plan::HaloBox& box) const {
  const Shape& shape = shapes_[box.field];
  BoxEnd end{.memory = box.field};
  for (size_t d = 0; d < box.dims.size(); ++d) {
    end.offset += box.dims[d].out * shape.padded[d];
    end.strides[d] = shape.padded[d];
  }
  end.offset *= SizeOfElement(box);
  return end;
}

BoxEnd PackedEnd(const plan::HaloBox& box, int memory, int64_t offset) {
  BoxEnd end{.memory = memory, .offset = offset};
  int64_t stride = 1;
  for (size_t d = box.dims.size(); d-- > 0;) {
    if (box.dims[d].step == 0) continue;
    end.strides[d] = stride;
    stride *= box.dims[d].count;
  }
  return end;
}

kernels::StridedBox JoinedBox(const plan::HaloBox& box, DType dtype,
                              const BoxEnd& in, const BoxEnd& out, bool sums) {
  kernels::StridedBox made{.dtype = dtype,
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

transport::MessageBox MessageBoxAt(const plan::HaloBox& box, DType dtype,
                                   const BoxEnd& end, bool once) {
  transport::MessageBox made{
      .dtype = dtype, .memory = end.memory, .offset = end.offset};
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const plan::HaloSegment& s = box.dims[d];
    if (s.count == 1 || (once && s.step == 0)) continue;
    made.counts[made.dims] = s.count;
    made.strides[made.dims++] = end.strides[d];
  }
  return made;
}

}  // namespace lockstep::halo

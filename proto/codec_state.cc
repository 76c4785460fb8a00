#include "proto/codec_state.h"

#include <numeric>

#include "proto/codec_common.h"
#include "protocol/state.h"

namespace lockstep::proto {
namespace {

// Numbers that a plan leaves out are 1 GiB at most.
constexpr int64_t kLeftOutMax = int64_t{1} << 27;

bool IsStateDTypeOnWire(int value) {
  return v1::DType_IsValid(value) && IsStateDType(static_cast<DType>(value));
}

void ReadStateDType(int from, DType* to, Decoder* d) {
  d->Enum("dtype", from, &IsStateDTypeOnWire, to);
}

// The blocks of a dimension; 0 if they are no more of the plan's mesh.
int BlocksOf(const plan::StateDim& dim, const plan::Plan& plan) {
  int64_t blocks = 1;
  for (const std::string& axis : dim.axes) {
    const int index = plan.mesh.AxisIndex(axis);
    if (index < 0) return 0;
    blocks *= plan.mesh.axes[static_cast<size_t>(index)].size;
    if (blocks > static_cast<int64_t>(plan.ranks.size())) return 0;
  }
  return static_cast<int>(blocks);
}

bool AreEven(const plan::StateDim& dim, const plan::Plan& plan) {
  const int blocks = BlocksOf(dim, plan);
  return blocks > 0 && dim.bounds.size() == static_cast<size_t>(blocks) + 1 &&
         dim.bounds == plan::EvenBounds(dim.extent(), blocks);
}

bool IsOfAll(const std::vector<int>& ranks, const plan::Plan& plan) {
  if (ranks.size() != plan.ranks.size()) return false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != static_cast<int>(i)) return false;
  }
  return true;
}

}  // namespace

// --- Registrations ----------------------------------------------------------

void Write(const StateCut& from, v1::StateCut* to) {
  to->set_dim(static_cast<uint32_t>(from.dim));
  for (const std::string& axis : from.axes) to->add_axes(ToUtf8(axis));
}

void Read(const v1::StateCut& from, StateCut* to, Decoder* d) {
  d->Int("dim", from.dim(), 0, &to->dim);
  d->Names("axes", from.axes(), kDimensionsMax, &to->axes);
}

void Write(const StateSlice& from, v1::StateSlice* to) {
  to->set_offset(from.offset);
  to->set_count(from.count);
}

void Read(const v1::StateSlice& from, StateSlice* to, Decoder* d) {
  d->NotNegative("offset", from.offset(), &to->offset);
  d->NotNegative("count", from.count(), &to->count);
}

void Write(const StateSpec& from, v1::StateSpec* to) {
  to->set_name(ToUtf8(from.name));
  to->set_dtype(Wire(from.dtype));
  to->mutable_shape()->Add(from.shape.begin(), from.shape.end());
  for (const StateCut& cut : from.cuts) Write(cut, to->add_cuts());
  if (from.slice) Write(*from.slice, to->mutable_slice());
  to->set_sliced_like(ToUtf8(from.sliced_like));
}

void Read(const v1::StateSpec& from, StateSpec* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  ReadStateDType(from.dtype(), &to->dtype, d);
  d->Shape("shape", from.shape(), &to->shape);
  d->Each("cuts", from.cuts(), kStateDimsMax, &to->cuts);
  d->Optional("slice", from.has_slice(), from.slice(), &to->slice);
  d->Name("sliced_like", from.sliced_like(), &to->sliced_like);
}

// --- Plans -------------------------------------------------------------------

void Read(const v1::StateDim& from, plan::StateDim* to, Decoder* d) {
  d->Names("axes", from.axes(), kDimensionsMax, &to->axes);
  ReadSizes("bounds", from.bounds(), kRanksMax + 1, &to->bounds, d);
}

void Read(const v1::StateTensor& from, plan::StateTensor* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  ReadStateDType(from.dtype(), &to->dtype, d);
  d->Each("dims", from.dims(), kStateDimsMax, &to->dims);
  if (d->Count("ranks", from.ranks_size(), kRanksMax)) {
    to->ranks.reserve(static_cast<size_t>(from.ranks_size()));
    for (const uint32_t rank : from.ranks()) {
      d->Int("ranks", rank, 0, &to->ranks.emplace_back());
    }
  }
  std::vector<int64_t> offsets;
  std::vector<int64_t> counts;
  ReadSizes("slice_offsets", from.slice_offsets(), kRanksMax, &offsets, d);
  ReadSizes("slice_counts", from.slice_counts(), kRanksMax, &counts, d);
  if (offsets.size() != counts.size()) {
    return d->Fail("slice_counts", "are not as many as slice_offsets");
  }
  to->slices.reserve(offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    to->slices.push_back({.offset = offsets[i], .count = counts[i]});
  }
}

void WriteState(const plan::Plan& from, v1::Plan* to) {
  for (const plan::StateTensor& tensor : from.state) {
    v1::StateTensor* made = to->add_state();
    made->set_name(ToUtf8(tensor.name));
    made->set_dtype(Wire(tensor.dtype));
    for (const plan::StateDim& dim : tensor.dims) {
      v1::StateDim* added = made->add_dims();
      for (const std::string& axis : dim.axes) added->add_axes(ToUtf8(axis));
      if (AreEven(dim, from)) {
        added->add_bounds(dim.extent());
      } else {
        added->mutable_bounds()->Add(dim.bounds.begin(), dim.bounds.end());
      }
    }
    if (!IsOfAll(tensor.ranks, from)) {
      made->mutable_ranks()->Add(tensor.ranks.begin(), tensor.ranks.end());
    }
    for (const StateSlice& slice : tensor.slices) {
      made->add_slice_offsets(slice.offset);
      made->add_slice_counts(slice.count);
    }
  }
}

void ReadState(const v1::Plan& from, plan::Plan* to, Decoder* d) {
  d->Each("state", from.state(), kManyMax, &to->state);
  if (!d->status().ok()) return;
  int64_t left_out = 0;
  const auto fits = [&](size_t more) {
    left_out += static_cast<int64_t>(more);
    if (left_out <= kLeftOutMax) return true;
    d->Fail("state", "has too many ranks and blocks");
    return false;
  };
  for (plan::StateTensor& tensor : to->state) {
    if (tensor.ranks.empty()) {
      if (!fits(to->ranks.size())) return;
      tensor.ranks.resize(to->ranks.size());
      std::iota(tensor.ranks.begin(), tensor.ranks.end(), 0);
    }
    for (plan::StateDim& dim : tensor.dims) {
      if (dim.bounds.size() != 1) continue;
      const int blocks = BlocksOf(dim, *to);
      if (blocks == 0 || !fits(static_cast<size_t>(blocks))) {
        return d->Fail("state", "has blocks of another mesh");
      }
      dim.bounds = plan::EvenBounds(dim.bounds[0], blocks);
    }
  }
}

}  // namespace lockstep::proto

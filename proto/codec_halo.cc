#include "proto/codec_halo.h"

#include "proto/codec_common.h"
#include "protocol/halo.h"

namespace lockstep::proto {

static_assert(static_cast<int>(*std::rbegin(kAllHaloEdges)) ==
              v1::HaloEdge_MAX);

// --- Declarations -----------------------------------------------------------

void Write(const HaloDim& from, v1::HaloDim* to) {
  to->set_dim(static_cast<uint32_t>(from.dim));
  to->set_axis(ToUtf8(from.axis));
  to->set_low(from.low);
  to->set_high(from.high);
  to->set_edge(WireOf<v1::HaloEdge>(from.edge));
  to->set_constant(from.constant);
}

void Read(const v1::HaloDim& from, HaloDim* to, Decoder* d) {
  d->Int("dim", from.dim(), 0, &to->dim);
  d->Name("axis", from.axis(), &to->axis);
  d->NotNegative("low", from.low(), &to->low);
  d->NotNegative("high", from.high(), &to->high);
  d->Enum("edge", from.edge(), &v1::HaloEdge_IsValid, &to->edge);
  d->Finite("constant", from.constant(), &to->constant);
}

void Write(const HaloTensor& from, v1::HaloTensor* to) {
  to->set_dtype(Wire(from.dtype));
  to->mutable_shape()->Add(from.shape.begin(), from.shape.end());
  for (const HaloDim& dim : from.dims) Write(dim, to->add_dims());
}

void Read(const v1::HaloTensor& from, HaloTensor* to, Decoder* d) {
  d->Enum("dtype", from.dtype(), &v1::DType_IsValid, &to->dtype);
  d->Shape("shape", from.shape(), &to->shape);
  d->Each("dims", from.dims(), kHaloDimsMax, &to->dims);
}

void Write(const HaloSpec& from, v1::HaloSpec* to) {
  to->set_name(ToUtf8(from.name));
  for (const HaloTensor& t : from.tensors) Write(t, to->add_tensors());
}

void Read(const v1::HaloSpec& from, HaloSpec* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Each("tensors", from.tensors(), static_cast<int>(kHaloTensorsMax),
          &to->tensors);
}

// --- Fields -----------------------------------------------------------------

void Write(const plan::HaloExtent& from, v1::HaloExtent* to) {
  to->set_axis(static_cast<uint32_t>(from.axis) + 1);
  to->mutable_bounds()->Add(from.bounds.begin(), from.bounds.end());
  to->set_low(from.low);
  to->set_high(from.high);
  to->set_edge(WireOf<v1::HaloEdge>(from.edge));
  to->set_constant(from.constant);
}

void Read(const v1::HaloExtent& from, plan::HaloExtent* to, Decoder* d) {
  d->Int("axis", from.axis(), 0, &to->axis);
  --to->axis;
  ReadSizes("bounds", from.bounds(), kRanksMax + 1, &to->bounds, d);
  d->NotNegative("low", from.low(), &to->low);
  d->NotNegative("high", from.high(), &to->high);
  d->Enum("edge", from.edge(), &v1::HaloEdge_IsValid, &to->edge);
  d->Finite("constant", from.constant(), &to->constant);
}

void Write(const plan::HaloField& from, v1::HaloField* to) {
  to->set_dtype(Wire(from.dtype));
  for (const plan::HaloExtent& e : from.dims) Write(e, to->add_dims());
}

void Read(const v1::HaloField& from, plan::HaloField* to, Decoder* d) {
  d->Enum("dtype", from.dtype(), &v1::DType_IsValid, &to->dtype);
  d->Each("dims", from.dims(), kHaloDimsMax, &to->dims);
}

void Write(const plan::Halo& from, v1::Halo* to) {
  to->set_name(ToUtf8(from.name));
  Write(from.mesh, to->mutable_mesh());
  to->mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
  to->set_communicator(static_cast<uint32_t>(from.communicator) + 1);
  for (const plan::HaloField& f : from.fields) Write(f, to->add_fields());
}

void Read(const v1::Halo& from, plan::Halo* to, Decoder* d) {
  d->Name("name", from.name(), &to->name);
  d->Message("mesh", from.has_mesh(), from.mesh(), &to->mesh);
  if (d->Count("ranks", from.ranks_size(), kRanksMax)) {
    for (const uint32_t rank : from.ranks()) {
      d->Int("ranks", rank, 0, &to->ranks.emplace_back());
    }
  }
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  --to->communicator;
  d->Each("fields", from.fields(), static_cast<int>(kHaloTensorsMax),
          &to->fields);
}

// --- Routes -----------------------------------------------------------------

void Write(const plan::HaloSegment& from, v1::HaloSegment* to) {
  to->set_in(from.in);
  to->set_out(from.out);
  to->set_count(from.count);
  to->set_step(from.step);
}

void Read(const v1::HaloSegment& from, plan::HaloSegment* to, Decoder* d) {
  d->NotNegative("in", from.in(), &to->in);
  d->NotNegative("out", from.out(), &to->out);
  d->NotNegative("count", from.count(), &to->count);
  d->Int("step", from.step(), -1, &to->step);
}

void Write(const plan::HaloBox& from, v1::HaloBox* to) {
  to->set_field(static_cast<uint32_t>(from.field));
  for (const plan::HaloSegment& s : from.dims) Write(s, to->add_dims());
}

void Read(const v1::HaloBox& from, plan::HaloBox* to, Decoder* d) {
  d->Int("field", from.field(), 0, &to->field);
  d->Each("dims", from.dims(), kHaloDimsMax, &to->dims);
}

void Write(const plan::HaloFill& from, v1::HaloFill* to) {
  Write(from.box, to->mutable_box());
  to->set_value(from.value);
}

void Read(const v1::HaloFill& from, plan::HaloFill* to, Decoder* d) {
  d->Message("box", from.has_box(), from.box(), &to->box);
  d->Finite("value", from.value(), &to->value);
}

void Write(const plan::HaloMessage& from, v1::HaloMessage* to) {
  to->set_peer(static_cast<uint32_t>(from.peer));
  to->set_bytes(from.bytes);
  for (const plan::HaloBox& box : from.boxes) Write(box, to->add_boxes());
}

void Read(const v1::HaloMessage& from, plan::HaloMessage* to, Decoder* d) {
  d->Int("peer", from.peer(), 0, &to->peer);
  d->NotNegative("bytes", from.bytes(), &to->bytes);
  d->Each("boxes", from.boxes(), kManyMax, &to->boxes);
}

void Write(const plan::HaloRoutes& from, v1::HaloRoutes* to) {
  to->set_halo(static_cast<uint32_t>(from.halo));
  for (const plan::HaloBox& box : from.own) Write(box, to->add_own());
  for (const plan::HaloFill& fill : from.fills) Write(fill, to->add_fills());
  for (const plan::HaloMessage& m : from.sends) Write(m, to->add_sends());
  for (const plan::HaloMessage& m : from.receives) {
    Write(m, to->add_receives());
  }
}

void Read(const v1::HaloRoutes& from, plan::HaloRoutes* to, Decoder* d) {
  d->Int("halo", from.halo(), 0, &to->halo);
  d->Each("own", from.own(), kManyMax, &to->own);
  d->Each("fills", from.fills(), kManyMax, &to->fills);
  d->Each("sends", from.sends(), kRanksMax, &to->sends);
  d->Each("receives", from.receives(), kRanksMax, &to->receives);
}

}  // namespace lockstep::proto

// The codec of the plan.

#include "proto/codec.h"
#include "proto/codec_common.h"
#include "proto/codec_halo.h"
#include "proto/codec_state.h"

namespace lockstep::proto {

static_assert(static_cast<int>(plan::LaneKind::kVerdict) == v1::LaneKind_MAX);
static_assert(static_cast<int>(plan::TransferKind::kAllReducePairs) ==
              v1::TransferKind_MAX);
static_assert(static_cast<int>(plan::LocalKind::kReadSummary) ==
              v1::LocalKind_MAX);
static_assert(static_cast<int>(plan::Work::kBackwardWeight) == v1::Work_MAX);

// --- Groups and buckets -----------------------------------------------------

void Write(const plan::CommunicatorSpec& from, v1::CommunicatorSpec* to) {
  to->set_name(ToUtf8(from.name));
  to->mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
}

void Read(const v1::CommunicatorSpec& from, plan::CommunicatorSpec* to,
          Decoder* d) {
  d->Name("name", from.name(), &to->name);
  if (!d->Count("ranks", from.ranks_size(), kRanksMax)) return;
  for (const uint32_t rank : from.ranks()) {
    d->Int("ranks", rank, 0, &to->ranks.emplace_back());
  }
}

void Write(const plan::Slot& from, v1::Slot* to) {
  to->set_parameter(from.parameter);
  to->set_offset(from.offset);
  to->set_count(from.count);
}

void Read(const v1::Slot& from, plan::Slot* to, Decoder* d) {
  d->Int("parameter", from.parameter(), 0, &to->parameter);
  d->NotNegative("offset", from.offset(), &to->offset);
  d->NotNegative("count", from.count(), &to->count);
}

void Write(const plan::Bucket& from, v1::Bucket* to) {
  to->set_communicator(from.communicator);
  to->set_dtype(Wire(from.dtype));
  to->set_op(Wire(from.op));
  for (const plan::Slot& slot : from.slots) Write(slot, to->add_slots());
  to->set_flags_offset(from.flags_offset);
  to->set_total(from.total);
  if (from.wire) to->set_wire(Wire(*from.wire));
  to->set_error_feedback(from.error_feedback);
  to->set_sharded(from.sharded);
  to->set_leaves(from.leaves);
  to->set_announced(from.announced);
}

void Read(const v1::Bucket& from, plan::Bucket* to, Decoder* d) {
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  ReadDType(from.dtype(), &to->dtype, d);
  ReadOp(from.op(), &to->op, d);
  d->Each("slots", from.slots(), kManyMax, &to->slots);
  d->NotNegative("flags_offset", from.flags_offset(), &to->flags_offset);
  d->NotNegative("total", from.total(), &to->total);
  ReadDTypeIfAny("wire", from.wire(), &to->wire, d);
  to->error_feedback = from.error_feedback();
  to->sharded = from.sharded();
  d->Int("leaves", from.leaves(), 0, &to->leaves);
  to->announced = from.announced();
}

// --- Lanes ------------------------------------------------------------------

void Write(const plan::TransferRef& from, v1::TransferRef* to) {
  to->set_lane(from.lane);
  to->set_index(from.index);
}

void Read(const v1::TransferRef& from, plan::TransferRef* to, Decoder* d) {
  d->Int("lane", from.lane(), 0, &to->lane);
  d->Int("index", from.index(), 0, &to->index);
}

// The wire has 0 for the default divisor.
uint32_t DivisorOnWire(int divisor) { return divisor == 1 ? 0 : divisor; }

void ReadDivisor(uint32_t from, int* to, Decoder* d) {
  d->Int("divisor", from == 0 ? 1 : from, 1, to);
}

void Write(const plan::LocalOp& from, v1::LocalOp* to) {
  to->set_kind(WireOf<v1::LocalKind>(from.kind));
  to->set_from(Wire(from.from));
  to->set_to(Wire(from.to));
  to->set_offset(from.offset);
  to->set_count(from.count);
  to->set_leaf(static_cast<uint32_t>(from.leaf) + 1);
  to->set_divisor(DivisorOnWire(from.divisor));
}

void Read(const v1::LocalOp& from, plan::LocalOp* to, Decoder* d) {
  d->Enum("kind", from.kind(), &v1::LocalKind_IsValid, &to->kind);
  d->Enum("from", from.from(), &IsTransportDTypeOnWire, &to->from);
  d->Enum("to", from.to(), &IsTransportDTypeOnWire, &to->to);
  d->NotNegative("offset", from.offset(), &to->offset);
  d->NotNegative("count", from.count(), &to->count);
  d->Int("leaf", from.leaf(), 0, &to->leaf);
  --to->leaf;
  ReadDivisor(from.divisor(), &to->divisor, d);
}

void Write(const plan::Transfer& from, v1::Transfer* to) {
  to->set_kind(WireOf<v1::TransferKind>(from.kind));
  to->set_communicator(from.communicator);
  to->set_dtype(Wire(from.dtype));
  to->mutable_shape()->Add(from.shape.begin(), from.shape.end());
  to->set_op(Wire(from.op));
  to->set_root(from.root);
  to->set_peer(from.peer);
  to->set_tag(from.tag);
  to->set_bucket(from.bucket);
  to->set_halo(static_cast<uint32_t>(from.halo) + 1);
  to->set_group(from.group);
  for (const plan::TransferRef& ref : from.after) Write(ref, to->add_after());
  // The wire counts from 1, so that a transfer without them needs no bytes.
  to->set_after_task(static_cast<uint32_t>(from.after_task) + 1);
  to->set_buffer(static_cast<uint32_t>(from.buffer) + 1);
  to->set_divisor(DivisorOnWire(from.divisor));
  for (const plan::LocalOp& op : from.before) Write(op, to->add_before());
  for (const plan::LocalOp& op : from.then) Write(op, to->add_then());
}

void Read(const v1::Transfer& from, plan::Transfer* to, Decoder* d) {
  d->Enum("kind", from.kind(), &v1::TransferKind_IsValid, &to->kind);
  d->Int("communicator", from.communicator(), 0, &to->communicator);
  ReadDType(from.dtype(), &to->dtype, d);
  d->Shape("shape", from.shape(), &to->shape);
  ReadOp(from.op(), &to->op, d);
  d->Int("root", from.root(), -1, &to->root);
  d->Int("peer", from.peer(), -1, &to->peer);
  to->tag = from.tag();
  d->Int("bucket", from.bucket(), -1, &to->bucket);
  d->Int("halo", from.halo(), 0, &to->halo);
  --to->halo;
  d->Int("group", from.group(), 0, &to->group);
  d->Each("after", from.after(), kManyMax, &to->after);
  d->Int("after_task", from.after_task(), 0, &to->after_task);
  d->Int("buffer", from.buffer(), 0, &to->buffer);
  --to->after_task;
  --to->buffer;
  ReadDivisor(from.divisor(), &to->divisor, d);
  d->Each("before", from.before(), kManyMax, &to->before);
  d->Each("then", from.then(), kManyMax, &to->then);
}

void Write(const plan::Task& from, v1::Task* to) {
  to->set_work(WireOf<v1::Work>(from.work));
  to->set_stage(from.stage);
  to->set_micro_batch(from.micro_batch);
  for (const plan::TransferRef& ref : from.after) Write(ref, to->add_after());
}

void Read(const v1::Task& from, plan::Task* to, Decoder* d) {
  d->Enum("work", from.work(), &v1::Work_IsValid, &to->work);
  d->Int("stage", from.stage(), 0, &to->stage);
  d->Int("micro_batch", from.micro_batch(), 0, &to->micro_batch);
  d->Each("after", from.after(), kManyMax, &to->after);
}

void Write(const plan::Lane& from, v1::Lane* to) {
  to->set_kind(WireOf<v1::LaneKind>(from.kind));
  to->set_name(ToUtf8(from.name));
  for (const plan::Transfer& transfer : from.transfers) {
    Write(transfer, to->add_transfers());
  }
}

void Read(const v1::Lane& from, plan::Lane* to, Decoder* d) {
  d->Enum("kind", from.kind(), &v1::LaneKind_IsValid, &to->kind);
  d->Name("name", from.name(), &to->name);
  d->Each("transfers", from.transfers(), kManyMax, &to->transfers);
}

void Write(const plan::RankPlan& from, v1::RankPlan* to) {
  for (const plan::Lane& lane : from.lanes) Write(lane, to->add_lanes());
  for (const plan::TransferRef& ref : from.launch_order) {
    Write(ref, to->add_launch_order());
  }
  for (const plan::Task& task : from.tasks) Write(task, to->add_tasks());
  for (const plan::HaloRoutes& routes : from.halos) {
    Write(routes, to->add_halos());
  }
}

void Read(const v1::RankPlan& from, plan::RankPlan* to, Decoder* d) {
  d->Each("lanes", from.lanes(), kManyMax, &to->lanes);
  d->Each("launch_order", from.launch_order(), kManyMax, &to->launch_order);
  d->Each("tasks", from.tasks(), kManyMax, &to->tasks);
  d->Each("halos", from.halos(), kManyMax, &to->halos);
}

// --- The whole plan ----------------------------------------------------------

v1::Plan ToProto(const plan::Plan& plan) {
  v1::Plan to;
  to.set_revision(plan.revision.value);
  Write(plan.mesh, to.mutable_mesh());
  for (const plan::CommunicatorSpec& communicator : plan.communicators) {
    Write(communicator, to.add_communicators());
  }
  for (const Parameter& p : plan.parameters) Write(p, to.add_parameters());
  for (const plan::Bucket& b : plan.buckets) Write(b, to.add_buckets());
  for (const plan::RankPlan& rank : plan.ranks) Write(rank, to.add_ranks());
  if (plan.pipeline != PipelineSpec{}) {
    Write(plan.pipeline, to.mutable_pipeline());
  }
  for (const plan::Halo& halo : plan.halos) Write(halo, to.add_halos());
  WriteState(plan, &to);
  return to;
}

void Read(const v1::Plan& from, plan::Plan* to, Decoder* d) {
  to->revision = {from.revision()};
  d->Message("mesh", from.has_mesh(), from.mesh(), &to->mesh);
  d->Each("communicators", from.communicators(), kManyMax, &to->communicators);
  d->Each("parameters", from.parameters(), kManyMax, &to->parameters);
  d->Each("buckets", from.buckets(), kManyMax, &to->buckets);
  d->Each("ranks", from.ranks(), kRanksMax, &to->ranks);
  if (from.has_pipeline()) {
    d->Message("pipeline", true, from.pipeline(), &to->pipeline);
  }
  d->Each("halos", from.halos(), kManyMax, &to->halos);
  ReadState(from, to, d);
}

absl::StatusOr<plan::Plan> FromProto(const v1::Plan& plan) {
  return Decode<plan::Plan>("Plan", plan);
}

}  // namespace lockstep::proto

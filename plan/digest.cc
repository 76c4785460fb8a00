#include "plan/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <concepts>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace lockstep::plan {
namespace {

// Increment it when the walk below changes, so old and new digests differ.
constexpr absl::string_view kFormat = "lockstep plan 4";
constexpr absl::string_view kMembersFormat = "lockstep members 1";

// Hashes the fields in one fixed order. Numbers are eight bytes, little endian;
// strings and lists start with their length, so different plans have different
// bytes.
class Walk {
 public:
  Walk() { XXH3_128bits_reset(&state_); }

  void Add(absl::string_view text) {
    Add(text.size());
    XXH3_128bits_update(&state_, text.data(), text.size());
  }

  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  void Add(T number) {
    uint64_t rest = static_cast<uint64_t>(number);
    unsigned char bytes[8];
    for (unsigned char& byte : bytes) {
      byte = static_cast<unsigned char>(rest);
      rest >>= 8;
    }
    XXH3_128bits_update(&state_, bytes, sizeof(bytes));
  }

  void Add(double number) { Add(std::bit_cast<uint64_t>(number)); }

  template <typename T>
  void Add(const std::vector<T>& list) {
    Add(list.size());
    for (const T& element : list) Add(element);
  }

  void Add(const Mesh& mesh) { Add(mesh.axes); }
  void Add(const MeshAxis& axis) { AddAll(axis.name, axis.size); }
  void Add(const CommunicatorSpec& c) { AddAll(c.name, c.ranks); }
  void Add(const Slot& s) { AddAll(s.parameter, s.offset, s.count); }
  void Add(const Parameter& p) {
    AddAll(p.name, p.shape, p.dtype, p.op, p.axes, p.replicated_over, p.stage);
  }
  void Add(const Bucket& b) {
    AddAll(b.communicator, b.dtype, b.op, b.slots, b.flags_offset, b.total,
           b.wire.value_or(DType{}), b.error_feedback, b.sharded, b.leaves,
           b.announced);
  }
  void Add(const PipelineSpec& p) {
    AddAll(p.schedule, absl::string_view(p.axis), p.micro_batches,
           p.virtual_stages, p.activations, p.tags, p.tag_base, p.shared);
  }
  void Add(const Activation& a) { Add(a.parts); }
  void Add(const TensorType& type) { AddAll(type.dtype, type.shape); }
  void Add(const Task& t) { AddAll(t.work, t.stage, t.micro_batch, t.after); }
  void Add(const LocalOp& op) {
    AddAll(op.kind, op.from, op.to, op.offset, op.count, op.leaf, op.divisor);
  }
  void Add(const protocol::Member& m) {
    AddAll(m.worker.value, m.generation.value, m.process.host, m.process.pid,
           m.process.boot_id, m.process.start_time);
  }
  void Add(const TransferRef& ref) { AddAll(ref.lane, ref.index); }
  void Add(const Transfer& t) {
    AddAll(t.kind, t.communicator, t.dtype, t.shape, t.op, t.root, t.peer,
           t.tag, t.bucket, t.halo, t.group, t.after, t.after_task, t.buffer,
           t.divisor, t.before, t.then);
  }
  void Add(const Lane& lane) { AddAll(lane.kind, lane.name, lane.transfers); }
  void Add(const HaloExtent& e) {
    AddAll(e.axis, e.bounds, e.low, e.high, e.edge, e.constant);
  }
  void Add(const HaloField& f) { AddAll(f.dtype, f.dims); }
  void Add(const Halo& h) {
    AddAll(h.name, h.mesh, h.ranks, h.communicator, h.fields);
  }
  void Add(const HaloSegment& s) { AddAll(s.in, s.out, s.count, s.step); }
  void Add(const HaloBox& b) { AddAll(b.field, b.dims); }
  void Add(const HaloFill& f) { AddAll(f.box, f.value); }
  void Add(const HaloMessage& m) { AddAll(m.peer, m.bytes, m.boxes); }
  void Add(const HaloRoutes& r) {
    AddAll(r.halo, r.own, r.fills, r.sends, r.receives);
  }
  void Add(const StateDim& d) { AddAll(d.axes, d.bounds); }
  void Add(const StateSlice& s) { AddAll(s.offset, s.count); }
  void Add(const StateTensor& t) {
    AddAll(t.name, t.dtype, t.dims, t.ranks, t.slices);
  }
  void Add(const RankPlan& r) {
    AddAll(r.lanes, r.launch_order, r.tasks, r.halos);
  }
  void Add(const Plan& p) {
    AddAll(p.revision.value, p.mesh, p.communicators, p.parameters, p.buckets,
           p.pipeline, p.halos, p.ranks, p.state);
  }

  std::string Finish() {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_));
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(canonical.digest),
                          sizeof(canonical.digest)));
  }

 private:
  template <typename... Fields>
  void AddAll(const Fields&... fields) {
    (Add(fields), ...);
  }

  XXH3_state_t state_;
};

}  // namespace

std::string DigestOf(const Plan& plan) {
  Walk walk;
  walk.Add(kFormat);
  walk.Add(plan);
  return walk.Finish();
}

std::string DigestOf(const std::vector<protocol::Member>& members) {
  Walk walk;
  walk.Add(kMembersFormat);
  walk.Add(members);
  return walk.Finish();
}

}  // namespace lockstep::plan

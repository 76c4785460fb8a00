// A small reduction over shared memory: every contribution is in a slot, and
// each rank reduces its own result: the whole buffer, or its block.
//
//   slot of 0   [arrived][a a]  ─┬─▶ rank 0 reduces a, b
//   slot of 1   [arrived][b b]  ─┴─▶ rank 1 reduces a, b
//
// `arrived` is the only progress word: once all ranks have arrived, a rank has
// all inputs.

#include "absl/container/inlined_vector.h"
#include "client/transport/common/reduce_rows.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/copy_mode_check.h"
#include "client/transport/shm/reduce_check.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

size_t InBytes(const CollectiveOp& call, int ranks) {
  return call.bytes() *
         (call.kind == CollectiveKind::kReduceScatter ? ranks : 1);
}

class SmallReduce final : public Collective {
 public:
  using Collective::Collective;

 private:
  void Prepare(PublishedCall&) override {
    if (call().count == 0) return;
    kernels::Copy(mine().small, call().in, InBytes(call(), size()));
  }

  absl::Status AllArrived() override {
    for (int peer = 0; peer < size(); ++peer) {
      absl::Status checked = CheckCopyMode(
          copy_mode(peer), InBytes(call(), size()), kSmallBytes, peer);
      if (!checked.ok()) return checked;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AdvanceResult> Part() override {
    if (call().count > 0) Reduce();
    return AdvanceResult::kDone;
  }

  void Reduce() {
    const bool scatters = call().kind == CollectiveKind::kReduceScatter;
    const size_t block = scatters ? rank() * call().bytes() : 0;
    absl::InlinedVector<const void*, 8> inputs(size());
    for (int from = 0; from < size(); ++from) {
      inputs[from] = Plus(from == rank() ? call().in : slot(from).small, block);
    }
    void* const outs[] = {call().out};
    ReduceRows(inputs, outs, call().count, call());
    if (call().checks.empty()) return;
    const SliceRange slice = ReduceSliceOf(call(), size(), rank());
    ReduceCheck check(call());
    check.Begin(slice, /*piece=*/0);
    check.End(Plus(call().out, slice.begin * SizeOf(call().dtype)));
  }
};

}  // namespace

bool IsSmallReduce(const CollectiveOp& call, int ranks) {
  const bool reduces = call.kind == CollectiveKind::kAllReduce ||
                       call.kind == CollectiveKind::kReduceScatter;
  return reduces && InBytes(call, ranks) <= kSmallBytes;
}

std::unique_ptr<CollectiveTask> MakeSmallReduce(const CollectiveOp& call,
                                                ShmGroup& shm_group) {
  return std::make_unique<SmallReduce>(call, shm_group);
}

}  // namespace lockstep::transport

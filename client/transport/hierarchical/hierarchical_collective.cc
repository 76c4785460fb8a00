// RemoteTransfers over the links between hosts (shm/remote_transfers.h). The
// receives of the next kWindow steps are posted.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "client/transport/collectives/link_exchange.h"
#include "client/transport/collectives/link_transfers.h"
#include "client/transport/common/scratch.h"
#include "client/transport/hierarchical/hierarchical_context.h"
#include "client/transport/hierarchical/hierarchical_schedule.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/chunked_collective.h"
#include "client/transport/shm/collective.h"
#include "kernels/partial_reduce.h"

namespace lockstep::transport {
namespace {

class HostTransfers final : public RemoteTransfers {
 public:
  // All arguments outlive this object.
  HostTransfers(const CollectiveOp& call, const HierarchicalContext& context,
                const ChunkSchedule& schedule)
      : call_(call),
        context_(context),
        schedule_(schedule),
        steps_(schedule.steps()),
        partial_element_(SizeOf(kernels::PartialTypeOf(call.dtype))),
        partial_bytes_(context.chunk_bytes / SizeOf(call.dtype) *
                       partial_element_),
        announcements_(call, context.wire()) {}

  absl::Status Begin() override {
    absl::Status begun = context_.scratch.Take(
        kWindow * (2 * partial_bytes_ + context_.chunk_bytes), &places_);
    for (int peer : schedule_.givers()) announcements_.TakeNotice(peer);
    for (int peer : schedule_.takers()) announcements_.GiveNotice(peer);
    begun.Update(announcements_.Start());
    for (uint64_t step = 0; begun.ok() && step < std::min(steps_, kWindow);
         ++step) {
      begun.Update(ReceivePartial(step));
      begun.Update(ReceiveResult(step));
    }
    for (uint64_t step = 0; begun.ok() && !reduces() && step < steps_; ++step) {
      const Chunk chunk = Mine(step);
      if (chunk.count == 0 || schedule_.ResultFrom(step) >= 0) continue;
      begun.Update(SendResult(step, Own(chunk)));
    }
    return context_.OfLink(begun);
  }

  absl::StatusOr<bool> Compare() override {
    if (compared_ || !announcements_.Moved()) return false;
    absl::Status agreed = announcements_.Finish();
    if (!agreed.ok()) return context_.OfLink(agreed);
    return compared_ = true;
  }

  absl::StatusOr<bool> CanReduce(uint64_t step) override {
    if (schedule_.partial_from() >= 0 && !compared_) return false;
    absl::StatusOr<bool> can = Empty(receiving_partials_[step % kWindow]);
    if (can.ok() && *can) can = Empty(sending_[step % kWindow]);
    return can;
  }

  absl::Status Reduce(std::span<const void* const> inputs,
                      uint64_t step) override {
    const Chunk chunk = Mine(step);
    const int to = schedule_.partial_to();
    const std::byte* const onto =
        schedule_.partial_from() >= 0 ? PartialIn(step) : nullptr;
    absl::Status posted;
    if (to >= 0) {
      kernels::ReduceToPartial(onto, inputs, PartialOut(step), chunk.count,
                               call_.dtype, call_.op);
      posted = sending_[step % kWindow].Add(
          context_.link.Send(to, PartialTag(step), PartialOut(step),
                             chunk.count * partial_element_));
    } else {
      kernels::ReduceFromPartial(onto, inputs, ResultPlace(chunk, step),
                                 chunk.count, call_.dtype, call_.op,
                                 call_.DivisorOf(context_.placement.ranks()));
      posted = SendResult(step, ResultPlace(chunk, step));
    }
    posted.Update(ReceivePartial(step + kWindow));
    return context_.OfLink(posted);
  }

  absl::StatusOr<bool> HasResult(uint64_t step) override {
    if (schedule_.ResultFrom(step) < 0) return true;
    if (!compared_) return false;
    return Empty(receiving_results_[step % kWindow]);
  }
  const std::byte* Result(uint64_t step) const override {
    const bool own = !reduces() && schedule_.ResultFrom(step) < 0;
    return own ? Own(Mine(step)) : ResultPlace(Mine(step), step);
  }

  absl::Status Forward(uint64_t step) override {
    const Chunk chunk = Mine(step);
    absl::Status posted;
    if (chunk.count > 0 && schedule_.ResultFrom(step) >= 0) {
      posted = SendResult(step, ResultPlace(chunk, step));
    }
    posted.Update(ReceiveResult(step + kWindow));
    return context_.OfLink(posted);
  }

  absl::StatusOr<bool> Done() override {
    absl::StatusOr<bool> done = compared_;
    for (Transfers& slot : sending_) {
      if (done.ok() && *done) done = Empty(slot);
    }
    return done;
  }

 private:
  using Slots = std::array<Transfers, kWindow>;

  bool reduces() const {
    return call_.kind == CollectiveKind::kAllReduce ||
           call_.kind == CollectiveKind::kReduceScatter;
  }
  Chunk Mine(uint64_t step) const {
    return step < steps_ ? schedule_.ChunkOf(context_.index(), step) : Chunk();
  }

  // --- Buffers ---

  std::byte* PartialIn(uint64_t step) const {
    return places_.data() + step % kWindow * partial_bytes_;
  }
  std::byte* PartialOut(uint64_t step) const {
    return PartialIn(step) + kWindow * partial_bytes_;
  }
  // The buffer of a result before it is given: in `out`, unless the chunk is
  // for others only.
  std::byte* ResultPlace(const Chunk& chunk, uint64_t step) const {
    if (!chunk.IsFor(context_.index())) {
      return places_.data() + 2 * kWindow * partial_bytes_ +
             step % kWindow * context_.chunk_bytes;
    }
    const bool scatters = call_.kind == CollectiveKind::kReduceScatter;
    const size_t before = scatters ? context_.rank * call_.count : 0;
    return Plus(call_.out, (chunk.begin - before) * SizeOf(call_.dtype));
  }
  // This rank's own chunk of a collective that does not reduce.
  const std::byte* Own(const Chunk& chunk) const {
    const bool gathers = call_.kind == CollectiveKind::kAllGather;
    const size_t before = gathers ? context_.rank * call_.count : 0;
    return Plus(gathers ? call_.in : call_.out,
                (chunk.begin - before) * SizeOf(call_.dtype));
  }

  // --- Messages: 0 is the announcement; per step a partial sum, a result ---

  uint64_t PartialTag(uint64_t step) const { return call_.tag + 1 + 2 * step; }
  uint64_t ResultTag(uint64_t step) const {
    return call_.tag + 2 + 2 * schedule_.Message(step);
  }

  absl::Status ReceivePartial(uint64_t step) {
    const Chunk chunk = Mine(step);
    const int from = chunk.count > 0 ? schedule_.partial_from() : -1;
    if (from < 0) return absl::OkStatus();
    return receiving_partials_[step % kWindow].Add(
        context_.link.Recv(from, PartialTag(step), PartialIn(step),
                           chunk.count * partial_element_));
  }
  absl::Status ReceiveResult(uint64_t step) {
    const Chunk chunk = Mine(step);
    const int from = chunk.count > 0 ? schedule_.ResultFrom(step) : -1;
    if (from < 0) return absl::OkStatus();
    return receiving_results_[step % kWindow].Add(
        context_.link.Recv(from, ResultTag(step), ResultPlace(chunk, step),
                           chunk.count * SizeOf(call_.dtype)));
  }
  // `from` must stay valid until the result has been sent.
  absl::Status SendResult(uint64_t step, const std::byte* from) {
    absl::Status posted;
    for (int to : schedule_.ResultTo(step)) {
      posted.Update(sending_[step % kWindow].Add(context_.link.Send(
          to, ResultTag(step), from, Mine(step).count * SizeOf(call_.dtype))));
    }
    return posted;
  }

  // Removes `transfers` once all are done. Whether none is left.
  absl::StatusOr<bool> Empty(Transfers& transfers) {
    if (transfers.empty()) return true;
    if (!transfers.Done()) return false;
    absl::Status moved = transfers.WaitAll();
    if (!moved.ok()) return context_.OfLink(moved);
    return true;
  }

  const CollectiveOp& call_;
  const HierarchicalContext& context_;
  const ChunkSchedule& schedule_;
  const uint64_t steps_;
  const size_t partial_element_;
  const size_t partial_bytes_;  // per buffer

  // Declared before the transfers that use it. kWindow buffers each for
  // received partial sums, for sent ones, and for results.
  Scratch places_;
  LinkExchange announcements_;
  Slots receiving_partials_;
  Slots receiving_results_;
  Slots sending_;
  bool compared_ = false;
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeHierarchicalCollective(
    const CollectiveOp& call, const HierarchicalContext& context) {
  auto schedule = MakeHierarchicalSchedule(call, context.placement,
                                           context.rank, context.chunk_bytes);
  auto transfers = std::make_unique<HostTransfers>(call, context, *schedule);
  return MakeChunkedCollective(
      call, context.shm_group,
      {.ranks = context.placement.ranks(),
       .members = context.placement.members(context.host()),
       .schedule = std::move(schedule),
       .transfers = std::move(transfers)});
}

}  // namespace lockstep::transport

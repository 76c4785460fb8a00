// Latency: one message between hosts. The first rank of each host, its leader,
// sends the contributions of its host to the other leaders, reduces those of
// all hosts, and publishes the result to its host.
//
//   host 0   [1][2] ──▶ leader ──[1 2]──▶ ◀──[4]── leader ◀── [4]   host 1
//            [7][7] ◀── 1+2+4                      1+2+4 ──▶ [7]

#include <algorithm>
#include <optional>
#include <vector>

#include "client/transport/collectives/link_exchange.h"
#include "client/transport/common/reduce_rows.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/collective.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

class SmallHierarchicalReduction final : public Collective {
 public:
  SmallHierarchicalReduction(const CollectiveOp& call,
                             const HierarchicalContext& context)
      : Collective(call, context.shm_group), context_(context) {}

 private:
  bool leads() const { return rank() == 0; }
  int LeaderOf(int host) const { return context_.placement.members(host)[0]; }
  size_t BytesOf(int host) const {
    return context_.placement.members(host).size() * call().bytes();
  }

  void Prepare(PublishedCall&) override {
    if (call().bytes() > 0) {
      kernels::Copy(mine().small, call().in, call().bytes());
    }
  }

  absl::Status AllArrived() override {
    if (!leads()) return absl::OkStatus();
    absl::Status taken =
        context_.scratch.Take(BytesOf(context_.host()), &gathered_);
    if (!taken.ok()) return taken;
    for (int from = 0; call().bytes() > 0 && from < size(); ++from) {
      kernels::Copy(gathered_.data() + from * call().bytes(), slot(from).small,
                    call().bytes());
    }
    exchange_.emplace(call(), context_.wire());
    for (int host = 0; host < context_.placement.hosts(); ++host) {
      if (host == context_.host()) continue;
      exchange_->Give(LeaderOf(host), gathered_.data(),
                      BytesOf(context_.host()));
      exchange_->Take(LeaderOf(host), nullptr, BytesOf(host));
    }
    return context_.OfLink(exchange_->Start());
  }

  absl::StatusOr<AdvanceResult> Part() override {
    if (leads()) return Lead();
    if (!AllHave(&CollectiveSlot::reduced, MaskOf(0), 1))
      return AdvanceResult::kNothing;
    if (call().bytes() > 0) {
      kernels::Copy(Plus(call().out, 0), slot(0).small, call().bytes());
    }
    return AdvanceResult::kDone;
  }

  absl::StatusOr<AdvanceResult> Lead() {
    if (!exchange_->Moved()) return AdvanceResult::kNothing;
    absl::Status finished = exchange_->Finish();
    if (!finished.ok()) return context_.OfLink(finished);
    if (call().bytes() > 0) Reduce();
    Publish(&CollectiveSlot::reduced, 1);
    return AdvanceResult::kDone;
  }

  // No other rank reads the leader's contribution, so the result overwrites it.
  void Reduce() {
    std::vector<const void*> rows;
    size_t takes = 0;
    for (int host = 0; host < context_.placement.hosts(); ++host) {
      const std::byte* const first = host == context_.host()
                                         ? gathered_.data()
                                         : exchange_->received(takes++);
      for (size_t at = 0; at < BytesOf(host); at += call().bytes()) {
        rows.push_back(first + at);
      }
    }
    ReduceRows(rows, {&call().out, 1}, call().count, call());
    kernels::Copy(mine().small, call().out, call().bytes());
  }

  const HierarchicalContext& context_;
  Scratch gathered_;  // declared before the exchange that uses it
  std::optional<LinkExchange> exchange_;
};

}  // namespace

bool IsSmallReduction(const CollectiveOp& call, const Placement& placement) {
  if (call.kind == CollectiveKind::kBarrier) return true;
  return call.kind == CollectiveKind::kAllReduce &&
         call.bytes() <= kSmallBytes &&
         call.bytes() * placement.most() <= kInlineBytes;
}

std::unique_ptr<CollectiveTask> MakeSmallReduction(
    const CollectiveOp& call, const HierarchicalContext& context) {
  return std::make_unique<SmallHierarchicalReduction>(call, context);
}

}  // namespace lockstep::transport

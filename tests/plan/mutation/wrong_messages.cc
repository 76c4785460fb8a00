#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"
#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {
namespace {

class MessageMutator : public Draws {
 public:
  using Draws::Draws;

  // All columns have the same layout: a message has the same position in each.
  void MessageFromAnotherReplica() {
    const std::optional<TwoReplicas> two = AnyTwoReplicas();
    if (!two) return;
    const auto& [from, to, other_from, other_to] = *two;
    Transfer copy = At(plan_, other_from);
    copy.communicator = Between(other_from.rank, to.rank);
    copy.buffer = CountMessages(plan_.ranks[other_from.rank]);
    At(plan_, to).communicator = copy.communicator;
    RemoveMessages(plan_, {from}, false);
    InsertBehind(plan_.ranks[other_from.rank], other_from.ref, copy);
  }

  void ReplicasExchanged() {
    const std::optional<TwoReplicas> two = AnyTwoReplicas();
    if (!two) return;
    const auto exchange = [&](Place from, Place to, Place other_from,
                              Place other_to) {
      const int cross = Between(from.rank, other_to.rank);
      const int back = Between(other_from.rank, to.rank);
      At(plan_, from).communicator = At(plan_, other_to).communicator = cross;
      At(plan_, other_from).communicator = At(plan_, to).communicator = back;
    };
    const auto& [from, to, other_from, other_to] = *two;
    if (Draw(2) == 0) return exchange(from, to, other_from, other_to);
    const size_t all =
        plan_.ranks[from.rank].lanes[from.ref.lane].transfers.size();
    for (int i = 0; i < static_cast<int>(all); ++i) {
      const auto at = [&](Place place) {
        place.ref.index = i;
        return place;
      };
      exchange(at(from), at(to), at(other_from), at(other_to));
    }
  }

  // A receive or a task does not wait for the last use of its buffer.
  void BufferUsedTooEarly() {
    RankPlan& rank = AnyRank();
    std::vector<TransferRef> receives;
    std::vector<std::pair<int, TransferRef>> waits;
    for (const TransferRef& ref : rank.launch_order) {
      const Transfer& transfer = rank.lanes[ref.lane].transfers[ref.index];
      if (transfer.kind == TransferKind::kRecv && transfer.after_task >= 0) {
        receives.push_back(ref);
      }
      if (transfer.kind != TransferKind::kSend) continue;
      for (size_t i = 0; i < rank.tasks.size(); ++i) {
        const auto& after = rank.tasks[i].after;
        if (std::count(after.begin(), after.end(), ref) > 0) {
          waits.emplace_back(static_cast<int>(i), ref);
        }
      }
    }
    if (!receives.empty() && (waits.empty() || Draw(2) == 0)) {
      const TransferRef ref = receives[Draw(receives.size())];
      MoveEarlier(rank.lanes[ref.lane].transfers[ref.index], 1 + Draw(3));
    } else if (!waits.empty()) {
      const auto& [task, send] = waits[Draw(waits.size())];
      std::erase(rank.tasks[task].after, send);
    }
  }

  void BufferOfAnotherMessage() {
    const std::optional<Place> any = AnyMessage();
    if (!any) return;
    const auto& order = plan_.ranks[any->rank].launch_order;
    const Place other{any->rank, order[Draw(order.size())]};
    Transfer& a = At(plan_, *any);
    const Transfer& b = At(plan_, other);
    if (a.kind != b.kind || a.shape != b.shape || a.dtype != b.dtype) return;
    a.buffer = b.buffer;
  }

  void BufferMissing() {
    SetBuffer([](const Place&) { return -1; });
  }

  void BufferOutOfRange() {
    const int beyond = Draw(4) == 0 ? 1 << 30 : Draw(3);
    SetBuffer([&](const Place& place) {
      return CountMessages(plan_.ranks[place.rank]) + beyond;
    });
  }

  void PartsSwapped() {
    const std::optional<Place> any = AnyMessage();
    if (!any) return;
    const std::optional<Place> other_part = OtherPart(*any);
    if (!other_part) return;
    const bool tags = Draw(2) == 0;
    const auto swap = [&](const Place& a, const Place& b) {
      Transfer& x = At(plan_, a);
      Transfer& y = At(plan_, b);
      if (tags) {
        std::swap(x.tag, y.tag);
      } else {
        std::swap(x.shape, y.shape);
        std::swap(x.dtype, y.dtype);
      }
    };
    const std::optional<Place> a = OtherSide(plan_, *any);
    const std::optional<Place> b = OtherSide(plan_, *other_part);
    if (!a || !b) return;
    swap(*any, *other_part);
    swap(*a, *b);
  }

  void PartTagsSwapped() {
    const std::optional<Place> any = AnyMessage();
    if (!any) return;
    const auto& lane = plan_.ranks[any->rank].lanes[any->ref.lane].transfers;
    Place with{any->rank, {any->ref.lane, Draw(lane.size())}};
    const std::optional<Place> a = OtherSide(plan_, *any);
    const std::optional<Place> b = OtherSide(plan_, with);
    if (!a || !b) return;
    std::swap(At(plan_, *any).tag, At(plan_, with).tag);
    if (Draw(4) != 0) std::swap(At(plan_, *a).tag, At(plan_, *b).tag);
  }

 private:
  // A neighbour with the same group number.
  std::optional<Place> OtherPart(const Place& message) {
    const Transfer& transfer = At(plan_, message);
    if (transfer.group == 0) return std::nullopt;
    const auto& lane =
        plan_.ranks[message.rank].lanes[message.ref.lane].transfers;
    for (const int step : {-1, 1}) {
      const int index = message.ref.index + step;
      if (index < 0 || index >= static_cast<int>(lane.size())) continue;
      if (lane[index].group == transfer.group) {
        return Place{message.rank, {message.ref.lane, index}};
      }
    }
    return std::nullopt;
  }

  template <typename Buffer>
  void SetBuffer(const Buffer& buffer) {
    const std::optional<Place> any = AnyMessage();
    if (!any) return;
    const std::optional<Place> other = OtherSide(plan_, *any);
    At(plan_, *any).buffer = buffer(*any);
    if (other && Draw(2) == 0) At(plan_, *other).buffer = buffer(*other);
  }
};

}  // namespace

const std::vector<Mutation>& WrongMessages() {
  static const auto* const all = new std::vector<Mutation>{
      {"message from another replica",
       Apply<MessageMutator, &MessageMutator::MessageFromAnotherReplica>},
      {"replicas exchanged",
       Apply<MessageMutator, &MessageMutator::ReplicasExchanged>},
      {"buffer used too early",
       Apply<MessageMutator, &MessageMutator::BufferUsedTooEarly>},
      {"buffer of another message",
       Apply<MessageMutator, &MessageMutator::BufferOfAnotherMessage>},
      {"buffer missing", Apply<MessageMutator, &MessageMutator::BufferMissing>},
      {"buffer out of range",
       Apply<MessageMutator, &MessageMutator::BufferOutOfRange>},
      {"parts swapped", Apply<MessageMutator, &MessageMutator::PartsSwapped>},
      {"part tags swapped",
       Apply<MessageMutator, &MessageMutator::PartTagsSwapped>}};
  return *all;
}

}  // namespace lockstep::plan

#include "tests/plan/mutation/wrong_halos.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"

namespace lockstep::plan {
namespace {

// --- Settling ---------------------------------------------------------------

HaloRoutes* RoutesOn(Plan& plan, int halo, int rank) {
  for (HaloRoutes& routes : plan.ranks[rank].halos) {
    if (routes.halo == halo) return &routes;
  }
  return nullptr;
}

void CountBytes(const Halo& halo, HaloMessage* message) {
  message->bytes = 0;
  for (const HaloBox& box : message->boxes) {
    int64_t bytes = static_cast<int64_t>(SizeOf(halo.fields[box.field].dtype));
    for (const HaloSegment& segment : box.dims) {
      bytes *= segment.step == 0 ? 1 : segment.count;
    }
    message->bytes = (message->bytes + 15) / 16 * 16 + bytes;
  }
}

// Sends what the members receive.
void SettleMessages(Plan& plan, int h) {
  const Halo& halo = plan.halos[h];
  std::map<int, std::map<int, HaloMessage>> sends;  // by owner and receiver
  for (size_t m = 0; m < halo.ranks.size(); ++m) {
    HaloRoutes* const routes = RoutesOn(plan, h, halo.ranks[m]);
    std::erase_if(routes->receives, [](const HaloMessage& message) {
      return message.boxes.empty();
    });
    std::sort(routes->receives.begin(), routes->receives.end(),
              [](const HaloMessage& a, const HaloMessage& b) {
                return a.peer < b.peer;
              });
    for (HaloMessage& message : routes->receives) {
      CountBytes(halo, &message);
      HaloMessage& sent = sends[message.peer][static_cast<int>(m)];
      sent = message;
      sent.peer = static_cast<int>(m);
    }
  }
  for (size_t m = 0; m < halo.ranks.size(); ++m) {
    HaloRoutes* const routes = RoutesOn(plan, h, halo.ranks[m]);
    routes->sends.clear();
    for (const auto& [peer, message] : sends[static_cast<int>(m)]) {
      routes->sends.push_back(message);
    }
  }
}

// Makes a rank's halo lanes of its messages.
void SettleLanes(Plan& plan, int r) {
  RankPlan& rank = plan.ranks[r];
  for (size_t l = 0; l < rank.lanes.size(); ++l) {
    if (rank.lanes[l].kind != LaneKind::kHalo) continue;
    while (!rank.lanes[l].transfers.empty()) {
      Remove(rank, {static_cast<int>(l), 0});
    }
  }
  for (const HaloRoutes& routes : rank.halos) {
    const Halo& halo = plan.halos[routes.halo];
    const std::string name = "halo of " + std::to_string(halo.communicator);
    for (const bool adjoint : {false, true}) {
      const auto add = [&](TransferKind kind,
                           const std::vector<HaloMessage>& messages) {
        for (const HaloMessage& message : messages) {
          int lane = -1;
          for (size_t l = 0; l < rank.lanes.size(); ++l) {
            if (rank.lanes[l].kind != LaneKind::kHalo) continue;
            const std::vector<Transfer>& of = rank.lanes[l].transfers;
            if (of.empty() || of[0].communicator == halo.communicator) {
              lane = static_cast<int>(l);
              if (!of.empty()) break;
            }
          }
          if (lane < 0) lane = AddLane(rank, LaneKind::kHalo, name);
          const int group = 2 * routes.halo + (adjoint ? 2 : 1);
          Append(rank, lane,
                 {.kind = kind,
                  .communicator = halo.communicator,
                  .dtype = DType::kU8,
                  .shape = {message.bytes},
                  .peer = message.peer,
                  .tag = static_cast<uint64_t>(group),
                  .halo = routes.halo,
                  .group = group});
        }
      };
      add(TransferKind::kSend, adjoint ? routes.receives : routes.sends);
      add(TransferKind::kRecv, adjoint ? routes.sends : routes.receives);
    }
  }
}

// --- Mutations --------------------------------------------------------------

class HaloMutator : Draws {
 public:
  using Draws::Draws;

  void BoxDropped() {
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr) return;
    boxes.all->erase(boxes.all->begin() + Draw(boxes.all->size()));
    Finish(boxes);
  }

  void BoxDoubled() {
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr) return;
    const HaloBox box = (*boxes.all)[Draw(boxes.all->size())];
    boxes.all->push_back(box);
    Finish(boxes);
  }

  void BoxShifted() {
    ChangeSegment([this](HaloSegment& segment) {
      (Draw(2) == 0 ? segment.in : segment.out) += Draw(2) == 0 ? 1 : -1;
    });
  }

  void BoxLonger() {
    ChangeSegment([this](HaloSegment& segment) {
      const int64_t by = Draw(2) == 0 ? 1 : -1;
      segment.count += by;
      if (Draw(2) == 0) segment.out -= by;
    });
  }

  void BoxReversed() {
    ChangeSegment([this](HaloSegment& segment) {
      segment.step = Draw(3) - 1;
      if (Draw(2) == 0) segment.in += segment.count - 1;
    });
  }

  void BoxOfAnotherField() {
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr) return;
    (*boxes.all)[Draw(boxes.all->size())].field =
        Draw(plan_.halos[boxes.halo].fields.size() + 1);
    Finish(boxes);
  }

  // The cells that belong before a block are copied behind it, or the other
  // way round.
  void BoxOfAnotherSide() {
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr || boxes.all->size() < 2) return;
    HaloBox& a = (*boxes.all)[Draw(boxes.all->size())];
    HaloBox& b = (*boxes.all)[Draw(boxes.all->size())];
    if (a.dims.empty() || a.dims.size() != b.dims.size()) return;
    const size_t d = Draw(a.dims.size());
    if (Draw(2) == 0) {
      std::swap(a.dims[d].in, b.dims[d].in);
    } else {
      std::swap(a.dims[d].out, b.dims[d].out);
    }
    Finish(boxes);
  }

  // Two neighbouring boxes still tile their part of the block.
  void BorderMoved() {
    const Member at = AnyPlace();
    if (at.routes == nullptr) return;
    std::vector<HaloBox*> boxes = AllBoxesOf(*at.routes);
    for (int tries = 0; tries < 200 && boxes.size() > 1; ++tries) {
      HaloBox& a = *boxes[Draw(boxes.size())];
      HaloBox& b = *boxes[Draw(boxes.size())];
      const int d = BorderOf(a, b);
      if (d < 0) continue;
      HaloSegment& before = a.dims[d];
      HaloSegment& after = b.dims[d];
      // Cells of the one that the other gets; not all of them.
      const int64_t by = Draw(2) == 0 ? after.count - 1 : 1 - before.count;
      before.count += by;
      after.count -= by;
      after.out += by;
      if (Draw(4) != 0) after.in += after.step * by;
      return Settle(at.halo);
    }
  }

  void BoxesMerged() {
    const Member at = AnyPlace();
    if (at.routes == nullptr) return;
    std::vector<HaloMessage*> messages;
    for (HaloMessage& message : at.routes->receives) {
      messages.push_back(&message);
    }
    const int chosen = Draw(messages.size() + 1);
    std::vector<HaloBox>& boxes = static_cast<size_t>(chosen) == messages.size()
                                      ? at.routes->own
                                      : messages[chosen]->boxes;
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t j = 0; j < boxes.size(); ++j) {
        const int d = BorderOf(boxes[i], boxes[j]);
        if (d < 0) continue;
        boxes[i].dims[d].count += boxes[j].dims[d].count;
        if (Draw(2) == 0) boxes[i].dims[d].step = boxes[j].dims[d].step;
        boxes.erase(boxes.begin() + static_cast<int64_t>(j));
        return Settle(at.halo);
      }
    }
  }

  void BoxFromAnotherMember() {
    Member at = AnyPlace();
    if (at.routes == nullptr) return;
    HaloRoutes& routes = *at.routes;
    const size_t members = plan_.halos[at.halo].ranks.size();
    if (members < 2) return;
    HaloBox box;
    if (Draw(2) == 0 && !routes.own.empty()) {
      const int index = Draw(routes.own.size());
      box = routes.own[index];
      routes.own.erase(routes.own.begin() + index);
    } else if (!routes.receives.empty()) {
      HaloMessage& message = routes.receives[Draw(routes.receives.size())];
      const int index = Draw(message.boxes.size());
      box = message.boxes[index];
      message.boxes.erase(message.boxes.begin() + index);
    } else {
      return;
    }
    const int peer = Draw(members);
    if (peer == at.member) {
      routes.own.push_back(box);
    } else {
      const auto known =
          std::find_if(routes.receives.begin(), routes.receives.end(),
                       [&](const HaloMessage& m) { return m.peer == peer; });
      if (known != routes.receives.end()) {
        known->boxes.push_back(box);
      } else {
        routes.receives.push_back({.peer = peer, .boxes = {box}});
      }
    }
    Settle(at.halo);
  }

  void FillOfAnotherValue() {
    const Member at = AnyPlace();
    if (at.routes == nullptr || at.routes->fills.empty()) return;
    HaloFill& fill = at.routes->fills[Draw(at.routes->fills.size())];
    fill.value = Draw(2) == 0 ? -fill.value : fill.value + 1;
  }

  void FillInsteadOfCopy() {
    const Member at = AnyPlace();
    if (at.routes == nullptr) return;
    const bool copies = Draw(2) == 0;
    if (copies ? at.routes->fills.empty() : at.routes->own.size() < 2) return;
    if (copies) {
      const int index = Draw(at.routes->fills.size());
      HaloBox box = at.routes->fills[index].box;
      at.routes->fills.erase(at.routes->fills.begin() + index);
      at.routes->own.push_back(box);
      return;
    }
    const int index = Draw(at.routes->own.size());
    HaloFill fill{at.routes->own[index], 0};
    at.routes->own.erase(at.routes->own.begin() + index);
    for (HaloSegment& segment : fill.box.dims) segment.in = segment.step = 0;
    at.routes->fills.push_back(fill);
  }

  void BoxesExchanged() {
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr || boxes.all->size() < 2) return;
    std::swap((*boxes.all)[Draw(boxes.all->size())],
              (*boxes.all)[Draw(boxes.all->size())]);
    Finish(boxes);
  }

  void MessageDropped() {
    std::vector<HaloMessage>* const messages = AnyMessages();
    if (messages == nullptr) return;
    messages->erase(messages->begin() + Draw(messages->size()));
    SettleSomeLanes();
  }

  void MessageDoubled() {
    std::vector<HaloMessage>* const messages = AnyMessages();
    if (messages == nullptr) return;
    const int index = Draw(messages->size());
    const HaloMessage message = (*messages)[index];
    messages->insert(messages->begin() + index, message);
    SettleSomeLanes();
  }

  void MessageOfAnotherPeer() {
    std::vector<HaloMessage>* const messages = AnyMessages();
    if (messages == nullptr) return;
    (*messages)[Draw(messages->size())].peer = Draw(4) - 1;
    SettleSomeLanes();
  }

  void PeersSwapped() {
    std::vector<HaloMessage>* const messages = AnyMessages();
    if (messages == nullptr || messages->size() < 2) return;
    HaloMessage& a = (*messages)[Draw(messages->size())];
    HaloMessage& b = (*messages)[Draw(messages->size())];
    std::swap(a.peer, b.peer);
    if (Draw(2) == 0) std::swap(a, b);
    SettleSomeLanes();
  }

  void MessageOfOtherBytes() {
    Member at = AnyPlace();
    if (at.routes == nullptr || at.routes->receives.empty()) return;
    HaloMessage& received =
        at.routes->receives[Draw(at.routes->receives.size())];
    const int64_t by = Draw(2) == 0 ? 1 : -1;
    received.bytes += by;
    if (Draw(2) == 0) {
      HaloRoutes* const owner =
          RoutesOn(plan_, at.halo, plan_.halos[at.halo].ranks[received.peer]);
      for (HaloMessage& sent : owner->sends) {
        if (sent.peer == at.member) sent.bytes += by;
      }
    }
    SettleSomeLanes();
  }

  void RoutesChanged() {
    const int rank = Draw(plan_.ranks.size());
    std::vector<HaloRoutes>& all = plan_.ranks[rank].halos;
    if (all.empty()) return;
    const int index = Draw(all.size());
    switch (Draw(5)) {
      case 0: all.erase(all.begin() + index); break;
      case 1: {
        const HaloRoutes routes = all[index];
        all.insert(all.begin() + index, routes);
        break;
      }
      case 2: {
        std::vector<HaloRoutes>& other =
            plan_.ranks[Draw(plan_.ranks.size())].halos;
        if (static_cast<size_t>(index) < other.size()) {
          std::swap(all[index], other[index]);
        }
        break;
      }
      case 3: all[index].halo = Draw(plan_.halos.size() + 2) - 1; break;
      default: std::swap(all[index], all[Draw(all.size())]);
    }
  }

  void TransferChanged() {
    const std::optional<Place> at = AnyHaloTransfer();
    if (!at) return;
    const int field = Draw(9);
    const int by = Draw(2) == 0 ? 1 : -1;
    const std::optional<Place> other = OtherSide(plan_, *at);
    Change(At(plan_, *at), field, by);
    if (other && Draw(2) == 0) Change(At(plan_, *other), field, by);
  }

  void TransferMoved() {
    const std::optional<Place> at = AnyHaloTransfer();
    if (!at) return;
    RankPlan& rank = plan_.ranks[at->rank];
    const Transfer transfer = At(plan_, *at);
    const std::optional<Place> other = OtherSide(plan_, *at);
    const size_t count = rank.lanes[at->ref.lane].transfers.size();
    switch (Draw(5)) {
      case 0: Remove(rank, at->ref); break;
      case 1:
        Remove(rank, at->ref);
        if (other) Remove(plan_.ranks[other->rank], other->ref);
        break;
      case 2: InsertBehind(rank, at->ref, transfer); break;
      case 3: SwapWhole(rank, at->ref.lane, at->ref.index, Draw(count)); break;
      default:
        Remove(rank, at->ref);
        Append(rank, AddLane(rank, LaneKind::kState, "state"), transfer);
    }
  }

  void FieldChanged() {
    if (plan_.halos.empty()) return;
    Halo& halo = plan_.halos[Draw(plan_.halos.size())];
    HaloField& field = halo.fields[Draw(halo.fields.size())];
    HaloExtent& extent = field.dims[Draw(field.dims.size())];
    const int64_t by = Draw(2) == 0 ? 1 : -1;
    switch (Draw(7)) {
      case 0: extent.bounds[Draw(extent.bounds.size())] += by; break;
      case 1: extent.low += by; break;
      case 2: extent.high += by; break;
      case 3:
        extent.edge = kAllHaloEdges[Draw(std::size(kAllHaloEdges))];
        break;
      case 4: extent.constant += static_cast<double>(by); break;
      case 5: extent.axis = Draw(halo.mesh.axes.size() + 2) - 1; break;
      default: field.dtype = kAllDTypes[Draw(std::size(kAllDTypes))];
    }
  }

  void ExchangeChanged() {
    if (plan_.halos.empty()) return;
    Halo& halo = plan_.halos[Draw(plan_.halos.size())];
    switch (Draw(6)) {
      case 0:
        std::swap(halo.ranks[Draw(halo.ranks.size())],
                  halo.ranks[Draw(halo.ranks.size())]);
        break;
      case 1:
        halo.ranks[Draw(halo.ranks.size())] = Draw(plan_.ranks.size() + 1);
        break;
      case 2:
        halo.communicator = Draw(plan_.communicators.size() + 1) - 1;
        if (Draw(2) == 0) SettleSomeLanes();
        break;
      case 3:
        if (!halo.mesh.axes.empty()) {
          MeshAxis& axis = halo.mesh.axes[Draw(halo.mesh.axes.size())];
          if (Draw(2) == 0) {
            ++axis.size;
          } else {
            axis.name = OneAxis();
          }
        }
        break;
      case 4: halo.name = plan_.halos[Draw(plan_.halos.size())].name; break;
      default: std::swap(halo, plan_.halos[Draw(plan_.halos.size())]);
    }
  }

 private:
  // A member's part of an exchange.
  struct Member {
    HaloRoutes* routes = nullptr;
    int halo = -1;
    int member = -1;
  };

  // Boxes of a rank, and whether they are one side of a message.
  struct Boxes {
    std::vector<HaloBox>* all = nullptr;
    int halo = -1;
    bool are_sent = false;
  };

  Member AnyPlace() {
    if (plan_.halos.empty()) return {};
    const int halo = Draw(plan_.halos.size());
    const std::vector<int>& ranks = plan_.halos[halo].ranks;
    const int member = Draw(ranks.size());
    return {RoutesOn(plan_, halo, ranks[member]), halo, member};
  }

  static std::vector<HaloBox*> AllBoxesOf(HaloRoutes& routes) {
    std::vector<HaloBox*> boxes;
    for (HaloBox& box : routes.own) boxes.push_back(&box);
    for (HaloFill& fill : routes.fills) boxes.push_back(&fill.box);
    for (HaloMessage& message : routes.receives) {
      for (HaloBox& box : message.boxes) boxes.push_back(&box);
    }
    return boxes;
  }

  // The only dimension in which they differ, if `b` begins there where `a`
  // ends; else -1.
  static int BorderOf(const HaloBox& a, const HaloBox& b) {
    if (a.field != b.field) return -1;
    int border = -1;
    for (size_t d = 0; d < a.dims.size(); ++d) {
      const HaloSegment& x = a.dims[d];
      const HaloSegment& y = b.dims[d];
      if (x.out == y.out && x.count == y.count) continue;
      if (border >= 0 || x.out + x.count != y.out) return -1;
      border = static_cast<int>(d);
    }
    return border;
  }

  Boxes AnyBoxes() {
    const Member at = AnyPlace();
    if (at.routes == nullptr) return {};
    const int kind = Draw(4);
    if (kind == 0) return NotEmpty({&at.routes->own, at.halo});
    const bool are_sent = kind == 1;
    std::vector<HaloMessage>& messages =
        are_sent ? at.routes->sends : at.routes->receives;
    if (messages.empty()) return NotEmpty({&at.routes->own, at.halo});
    return {&messages[Draw(messages.size())].boxes, at.halo, are_sent};
  }
  static Boxes NotEmpty(const Boxes& boxes) {
    return boxes.all->empty() ? Boxes{} : boxes;
  }

  template <typename Edit>
  void ChangeSegment(Edit edit) {
    const Member at = AnyPlace();
    if (at.routes != nullptr && !at.routes->fills.empty() && Draw(4) == 0) {
      HaloFill& fill = at.routes->fills[Draw(at.routes->fills.size())];
      edit(fill.box.dims[Draw(fill.box.dims.size())]);
      return;
    }
    const Boxes boxes = AnyBoxes();
    if (boxes.all == nullptr) return;
    HaloBox& box = (*boxes.all)[Draw(boxes.all->size())];
    edit(box.dims[Draw(box.dims.size())]);
    Finish(boxes);
  }

  // Leaves one side as it is, or settles the exchange.
  void Finish(const Boxes& boxes) {
    if (boxes.are_sent || Draw(3) == 0) return;
    for (const HaloField& field : plan_.halos[boxes.halo].fields) {
      if (SizeOf(field.dtype) == 0) return;
    }
    for (const HaloBox& box : *boxes.all) {
      const size_t fields = plan_.halos[boxes.halo].fields.size();
      if (static_cast<size_t>(box.field) >= fields) return;
    }
    Settle(boxes.halo);
  }

  void Settle(int halo) {
    SettleMessages(plan_, halo);
    for (const int rank : plan_.halos[halo].ranks) SettleLanes(plan_, rank);
  }

  void SettleSomeLanes() {
    if (Draw(3) == 0) return;
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      SettleLanes(plan_, static_cast<int>(rank));
    }
  }

  std::vector<HaloMessage>* AnyMessages() {
    const Member at = AnyPlace();
    if (at.routes == nullptr) return nullptr;
    std::vector<HaloMessage>& messages =
        Draw(2) == 0 ? at.routes->sends : at.routes->receives;
    return messages.empty() ? nullptr : &messages;
  }

  std::optional<Place> AnyHaloTransfer() {
    const int rank = Draw(plan_.ranks.size());
    const std::vector<Lane>& lanes = plan_.ranks[rank].lanes;
    std::vector<Place> all;
    for (size_t l = 0; l < lanes.size(); ++l) {
      if (lanes[l].kind != LaneKind::kHalo) continue;
      for (size_t i = 0; i < lanes[l].transfers.size(); ++i) {
        all.push_back({rank, {static_cast<int>(l), static_cast<int>(i)}});
      }
    }
    if (all.empty()) return std::nullopt;
    return all[Draw(all.size())];
  }

  void Change(Transfer& transfer, int field, int by) {
    switch (field) {
      case 0: transfer.tag += static_cast<uint64_t>(by); return;
      case 1: transfer.shape[0] += by; return;
      case 2: transfer.peer += by; return;
      case 3: transfer.group += by; return;
      case 4: transfer.halo += by; return;
      case 5: transfer.dtype = DType::kI8; return;
      case 6: transfer.communicator = Draw(plan_.communicators.size()); return;
      case 7: transfer.after = {{0, 0}}; return;
      default:
        transfer.kind = transfer.kind == TransferKind::kSend
                            ? TransferKind::kRecv
                            : TransferKind::kSend;
    }
  }

  std::string OneAxis() {
    return plan_.mesh.axes[Draw(plan_.mesh.axes.size())].name;
  }
};

}  // namespace

const std::vector<Mutation>& WrongHalos() {
  static const auto* const all = new std::vector<Mutation>{
      {"box dropped", Apply<HaloMutator, &HaloMutator::BoxDropped>},
      {"box doubled", Apply<HaloMutator, &HaloMutator::BoxDoubled>},
      {"box shifted", Apply<HaloMutator, &HaloMutator::BoxShifted>},
      {"box longer or shorter", Apply<HaloMutator, &HaloMutator::BoxLonger>},
      {"box reversed", Apply<HaloMutator, &HaloMutator::BoxReversed>},
      {"box of another field",
       Apply<HaloMutator, &HaloMutator::BoxOfAnotherField>},
      {"box of another side",
       Apply<HaloMutator, &HaloMutator::BoxOfAnotherSide>},
      {"border moved", Apply<HaloMutator, &HaloMutator::BorderMoved>},
      {"boxes merged", Apply<HaloMutator, &HaloMutator::BoxesMerged>},
      {"box from another member",
       Apply<HaloMutator, &HaloMutator::BoxFromAnotherMember>},
      {"fill of another value",
       Apply<HaloMutator, &HaloMutator::FillOfAnotherValue>},
      {"fill instead of copy",
       Apply<HaloMutator, &HaloMutator::FillInsteadOfCopy>},
      {"boxes exchanged", Apply<HaloMutator, &HaloMutator::BoxesExchanged>},
      {"message dropped", Apply<HaloMutator, &HaloMutator::MessageDropped>},
      {"message doubled", Apply<HaloMutator, &HaloMutator::MessageDoubled>},
      {"message of another peer",
       Apply<HaloMutator, &HaloMutator::MessageOfAnotherPeer>},
      {"peers swapped", Apply<HaloMutator, &HaloMutator::PeersSwapped>},
      {"message of other bytes",
       Apply<HaloMutator, &HaloMutator::MessageOfOtherBytes>},
      {"routes changed", Apply<HaloMutator, &HaloMutator::RoutesChanged>},
      {"transfer changed", Apply<HaloMutator, &HaloMutator::TransferChanged>},
      {"transfer moved", Apply<HaloMutator, &HaloMutator::TransferMoved>},
      {"field changed", Apply<HaloMutator, &HaloMutator::FieldChanged>},
      {"exchange changed", Apply<HaloMutator, &HaloMutator::ExchangeChanged>}};
  return *all;
}

}  // namespace lockstep::plan

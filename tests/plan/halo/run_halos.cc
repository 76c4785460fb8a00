#include "tests/plan/halo/run_halos.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/plan/halo/padded_field.h"

namespace lockstep::plan::oracle {
namespace {

constexpr int64_t kBoxAlignment = 16;
// Larger fields are not of a test.
constexpr int64_t kExtentMax = 1000;

int64_t RoundedUp(int64_t bytes) {
  return (bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment;
}

std::vector<int64_t> CountsOf(const HaloBox& box) {
  std::vector<int64_t> counts;
  for (const HaloSegment& segment : box.dims) counts.push_back(segment.count);
  return counts;
}

// The counts of a box in a message: dimensions that repeat one cell are there
// once.
std::vector<int64_t> PackedCountsOf(const HaloBox& box) {
  std::vector<int64_t> counts;
  for (const HaloSegment& segment : box.dims) {
    counts.push_back(segment.step == 0 ? 1 : segment.count);
  }
  return counts;
}

std::vector<int64_t> SourceOf(const HaloBox& box, std::vector<int64_t> at) {
  for (size_t d = 0; d < at.size(); ++d) {
    at[d] = box.dims[d].in + box.dims[d].step * at[d];
  }
  return at;
}

std::vector<int64_t> TargetOf(const HaloBox& box, std::vector<int64_t> at) {
  for (size_t d = 0; d < at.size(); ++d) at[d] += box.dims[d].out;
  return at;
}

std::vector<int64_t> PackedPlaceOf(const HaloBox& box,
                                   std::vector<int64_t> at) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (box.dims[d].step == 0) at[d] = 0;
  }
  return at;
}

// What travels, by the byte at which an element begins.
template <typename Element>
struct Packet {
  uint64_t tag = 0;
  int64_t bytes = 0;
  std::map<int64_t, Element> elements;
};

// Where the elements of a message are.
class MessageLayout {
 public:
  MessageLayout(const std::vector<HaloField>& fields,
                const HaloMessage& message)
      : fields_(fields) {
    for (const HaloBox& box : message.boxes) {
      begins_.push_back(RoundedUp(bytes_));
      bytes_ = begins_.back() + CellsIn(PackedCountsOf(box)) * Size(box);
    }
  }

  int64_t bytes() const { return bytes_; }

  // The byte of the cell at a place of the n-th box.
  int64_t ByteOf(size_t n, const HaloBox& box,
                 const std::vector<int64_t>& at) const {
    return begins_[n] +
           OffsetIn(PackedCountsOf(box), PackedPlaceOf(box, at)) * Size(box);
  }

 private:
  int64_t Size(const HaloBox& box) const {
    return static_cast<int64_t>(SizeOf(fields_[box.field].dtype));
  }

  const std::vector<HaloField>& fields_;
  std::vector<int64_t> begins_;
  int64_t bytes_ = 0;
};

class HaloRun {
 public:
  HaloRun(const Plan& plan, int index, std::mt19937_64& random)
      : plan_(plan), halo_(plan.halos[index]), index_(index), random_(random) {}

  std::optional<std::string> Run() {
    CheckGroup();
    if (!fault_) CheckFields();
    if (!fault_) FindRoutes();
    if (!fault_) MakeArrays();
    if (!fault_) CheckRoutes();
    if (!fault_) Forward();
    if (!fault_) Adjoint();
    return fault_;
  }

 private:
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    if (!fault_) fault_ = absl::StrCat("halo ", halo_.name, ": ", parts...);
  }

  // --- Whether it can be run ---

  void CheckGroup() {
    for (const MeshAxis& axis : halo_.mesh.axes) {
      const int of_plan = plan_.mesh.AxisIndex(axis.name);
      if (of_plan < 0 || plan_.mesh.axes[of_plan].size != axis.size) {
        return Fail("axis ", axis.name, " is not one of the plan");
      }
    }
    if (halo_.ranks.size() != static_cast<size_t>(halo_.mesh.WorldSize())) {
      return Fail(halo_.ranks.size(), " ranks");
    }
    for (size_t m = 0; m < halo_.ranks.size(); ++m) {
      const int rank = halo_.ranks[m];
      if (rank < 0 || rank >= static_cast<int>(plan_.ranks.size())) {
        return Fail("rank ", rank);
      }
      CheckMember(rank, halo_.mesh.CoordinatesOf(static_cast<int>(m)));
    }
  }

  // The member differs from the first only in the axes that cut.
  void CheckMember(int rank, const std::vector<int>& in_halo) {
    const std::vector<int> in_plan = plan_.mesh.CoordinatesOf(rank);
    const std::vector<int> first = plan_.mesh.CoordinatesOf(halo_.ranks[0]);
    for (size_t axis = 0; axis < in_plan.size(); ++axis) {
      const int cutting = halo_.mesh.AxisIndex(plan_.mesh.axes[axis].name);
      const int needed = cutting < 0 ? first[axis] : in_halo[cutting];
      if (in_plan[axis] != needed) Fail("rank ", rank, " is of another group");
    }
  }

  void CheckFields() {
    for (const HaloField& field : halo_.fields) {
      std::set<int> axes;
      for (const HaloExtent& extent : field.dims) {
        if (extent.axis >= static_cast<int>(halo_.mesh.axes.size()) ||
            extent.axis < -1) {
          return Fail("axis ", extent.axis);
        }
        if (extent.axis >= 0 && !axes.insert(extent.axis).second) {
          return Fail("axis ", extent.axis, " cuts twice");
        }
        CheckExtent(extent);
      }
    }
  }

  void CheckExtent(const HaloExtent& extent) {
    const size_t blocks =
        extent.axis < 0 ? 1 : halo_.mesh.axes[extent.axis].size;
    if (extent.bounds.size() != blocks + 1 || extent.bounds[0] != 0) {
      return Fail("bounds of other blocks");
    }
    for (size_t b = 0; b < blocks; ++b) {
      if (extent.bounds[b] >= extent.bounds[b + 1]) return Fail("empty block");
    }
    const int64_t size = extent.bounds.back();
    const int64_t widest = std::max(extent.low, extent.high);
    if (size > kExtentMax || widest > kExtentMax ||
        std::min(extent.low, extent.high) < 0) {
      return Fail("sizes");
    }
    if (extent.edge == HaloEdge::kReflect && widest >= size) {
      Fail("reflects more than there is");
    }
  }

  void FindRoutes() {
    routes_.resize(halo_.ranks.size());
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      for (const HaloRoutes& routes : plan_.ranks[rank].halos) {
        if (routes.halo != index_) continue;
        const auto member = std::find(halo_.ranks.begin(), halo_.ranks.end(),
                                      static_cast<int>(rank));
        if (member == halo_.ranks.end()) return Fail("a guest has routes");
        const HaloRoutes*& known = routes_[member - halo_.ranks.begin()];
        if (known != nullptr) return Fail("a member has routes twice");
        known = &routes;
      }
    }
    for (const HaloRoutes* routes : routes_) {
      if (routes == nullptr) return Fail("a member has no routes");
    }
  }

  void MakeArrays() {
    for (size_t m = 0; m < halo_.ranks.size(); ++m) {
      const std::vector<int> coordinates =
          halo_.mesh.CoordinatesOf(static_cast<int>(m));
      blocks_.emplace_back();
      wanted_.emplace_back();
      for (const HaloField& field : halo_.fields) {
        const int replica = ReplicaOfMember(field, halo_.mesh, coordinates);
        blocks_[m].push_back(
            BlockOfMember(field, WholeField(field, replica), coordinates));
        wanted_[m].push_back(PaddedBlockOfMember(
            field, PaddedField(field, replica), coordinates));
      }
    }
  }

  // --- Boxes ---

  void CheckRoutes() {
    for (size_t m = 0; m < routes_.size(); ++m) {
      const HaloRoutes& routes = *routes_[m];
      for (const HaloBox& box : routes.own) {
        CheckIsBox(box);
        if (!fault_) CheckReads(box, blocks_[m]);
        if (!fault_) CheckWrites(box, wanted_[m]);
      }
      for (const HaloFill& fill : routes.fills) {
        CheckIsBox(fill.box);
        if (!fault_) CheckWrites(fill.box, wanted_[m]);
      }
      for (const HaloMessage& message : routes.sends) {
        CheckPeer(message);
        for (const HaloBox& box : message.boxes) {
          CheckIsBox(box);
          if (!fault_) CheckReads(box, blocks_[m]);
        }
      }
      for (const HaloMessage& message : routes.receives) {
        CheckPeer(message);
        for (const HaloBox& box : message.boxes) {
          CheckIsBox(box);
          if (!fault_) CheckWrites(box, wanted_[m]);
        }
      }
      if (fault_) return;
    }
  }

  void CheckPeer(const HaloMessage& message) {
    if (message.peer < 0 ||
        message.peer >= static_cast<int>(halo_.ranks.size())) {
      Fail("peer ", message.peer);
    }
  }

  void CheckIsBox(const HaloBox& box) {
    if (box.field < 0 || box.field >= static_cast<int>(halo_.fields.size()) ||
        box.dims.size() != halo_.fields[box.field].dims.size()) {
      return Fail("a box of field ", box.field);
    }
    for (const HaloSegment& segment : box.dims) {
      if (segment.count < 1 || segment.count > 4 * kExtentMax ||
          std::abs(segment.step) > 1) {
        return Fail("a segment of ", segment.count, ", step ", segment.step);
      }
    }
  }

  void CheckReads(const HaloBox& box, const std::vector<FieldArray>& of) {
    for (size_t d = 0; d < box.dims.size(); ++d) {
      const HaloSegment& segment = box.dims[d];
      const int64_t last = segment.in + segment.step * (segment.count - 1);
      if (std::min(segment.in, last) < 0 ||
          std::max(segment.in, last) >= of[box.field].shape[d]) {
        Fail("a box reads outside");
      }
    }
  }

  void CheckWrites(const HaloBox& box, const std::vector<FieldArray>& to) {
    for (size_t d = 0; d < box.dims.size(); ++d) {
      const HaloSegment& segment = box.dims[d];
      if (segment.out < 0 ||
          segment.out + segment.count > to[box.field].shape[d]) {
        Fail("a box writes outside");
      }
    }
  }

  // --- Transfers ---

  std::vector<const Transfer*> GroupOf(size_t member, int group) {
    std::vector<const Transfer*> transfers;
    for (const Lane& lane : plan_.ranks[halo_.ranks[member]].lanes) {
      if (lane.kind != LaneKind::kHalo) continue;
      int end = -1;  // of the transfers of the group
      for (size_t i = 0; i < lane.transfers.size(); ++i) {
        const Transfer& transfer = lane.transfers[i];
        if (transfer.halo != index_ || transfer.group != group) continue;
        if (!transfers.empty() && end != static_cast<int>(i)) {
          Fail("group ", group, " is not together");
        }
        end = static_cast<int>(i) + 1;
        if (!IsOfGroup(transfer)) Fail("a message on another communicator");
        if (transfer.dtype != DType::kU8 || transfer.shape.size() != 1) {
          Fail("a message that is not bytes");
        }
        if (fault_) return {};
        transfers.push_back(&transfer);
      }
    }
    return transfers;
  }

  bool IsOfGroup(const Transfer& transfer) const {
    const int c = transfer.communicator;
    return c >= 1 && c < static_cast<int>(plan_.communicators.size()) &&
           plan_.communicators[c].ranks == halo_.ranks;
  }

  // Moves sent[m], the packets of the messages sends[m] of member m, through
  // the transfers of the group. Returns the packets of the messages
  // receives[m].
  template <typename Element>
  std::vector<std::vector<Packet<Element>>> Exchange(
      int group, std::vector<std::vector<Packet<Element>>> sent,
      const std::vector<const std::vector<HaloMessage>*>& sends,
      const std::vector<const std::vector<HaloMessage>*>& receives) {
    std::map<std::pair<int, int>, std::deque<Packet<Element>>> on_the_way;
    for (size_t m = 0; m < sent.size(); ++m) {
      std::map<int, std::deque<const Transfer*>> transfers =
          ByPeer(m, group, TransferKind::kSend);
      for (size_t i = 0; i < sent[m].size(); ++i) {
        const int peer = (*sends[m])[i].peer;
        const Transfer* const transfer = Next(transfers[peer]);
        if (transfer == nullptr) return {};
        if (transfer->shape[0] != sent[m][i].bytes) Fail("bytes of a send");
        sent[m][i].tag = transfer->tag;
        on_the_way[{static_cast<int>(m), peer}].push_back(sent[m][i]);
      }
      ExpectNone(transfers);
    }
    std::vector<std::vector<Packet<Element>>> received(sent.size());
    for (size_t m = 0; m < sent.size(); ++m) {
      std::map<int, std::deque<const Transfer*>> transfers =
          ByPeer(m, group, TransferKind::kRecv);
      for (const HaloMessage& message : *receives[m]) {
        const Transfer* const transfer = Next(transfers[message.peer]);
        auto& queue = on_the_way[{message.peer, static_cast<int>(m)}];
        if (transfer == nullptr || queue.empty()) {
          Fail("a message is not sent");
          return {};
        }
        Packet<Element> packet = std::move(queue.front());
        queue.pop_front();
        if (packet.tag != transfer->tag) Fail("tags");
        if (packet.bytes != transfer->shape[0] ||
            packet.bytes != message.bytes) {
          Fail("bytes of a receive");
        }
        received[m].push_back(std::move(packet));
      }
      ExpectNone(transfers);
    }
    for (const auto& [link, queue] : on_the_way) {
      if (!queue.empty()) Fail("a message is not received");
    }
    return received;
  }

  std::map<int, std::deque<const Transfer*>> ByPeer(size_t member, int group,
                                                    TransferKind kind) {
    std::map<int, std::deque<const Transfer*>> transfers;
    for (const Transfer* transfer : GroupOf(member, group)) {
      if (!IsPointToPoint(transfer->kind)) Fail("a collective");
      if (transfer->kind == kind) transfers[transfer->peer].push_back(transfer);
    }
    return transfers;
  }

  const Transfer* Next(std::deque<const Transfer*>& transfers) {
    if (transfers.empty()) {
      Fail("a message has no transfer");
      return nullptr;
    }
    const Transfer* const next = transfers.front();
    transfers.pop_front();
    return next;
  }

  void ExpectNone(const std::map<int, std::deque<const Transfer*>>& transfers) {
    for (const auto& [peer, left] : transfers) {
      if (!left.empty()) Fail("a transfer has no message");
    }
  }

  std::vector<const std::vector<HaloMessage>*> All(
      std::vector<HaloMessage> HaloRoutes::*messages) const {
    std::vector<const std::vector<HaloMessage>*> all;
    for (const HaloRoutes* routes : routes_) {
      all.push_back(&(routes->*messages));
    }
    return all;
  }

  // --- The exchange ---

  void Forward() {
    std::vector<std::vector<Packet<FieldCell>>> sent(routes_.size());
    for (size_t m = 0; m < routes_.size(); ++m) {
      for (const HaloMessage& message : routes_[m]->sends) {
        sent[m].push_back(PackCells(message, blocks_[m]));
      }
    }
    const auto received =
        Exchange(2 * index_ + 1, std::move(sent), All(&HaloRoutes::sends),
                 All(&HaloRoutes::receives));
    for (size_t m = 0; m < routes_.size() && !fault_; ++m) {
      Assemble(m, received[m]);
    }
  }

  Packet<FieldCell> PackCells(const HaloMessage& message,
                              const std::vector<FieldArray>& from) {
    const MessageLayout layout(halo_.fields, message);
    if (layout.bytes() != message.bytes) Fail("bytes of a message");
    Packet<FieldCell> packet{.bytes = message.bytes};
    for (size_t n = 0; n < message.boxes.size(); ++n) {
      const HaloBox& box = message.boxes[n];
      ForEachCell(CountsOf(box), [&](const std::vector<int64_t>& at) {
        packet.elements[layout.ByteOf(n, box, at)] =
            CellAt(from, box, SourceOf(box, at));
      });
    }
    return packet;
  }

  static const FieldCell& CellAt(const std::vector<FieldArray>& arrays,
                                 const HaloBox& box,
                                 const std::vector<int64_t>& at) {
    const FieldArray& array = arrays[box.field];
    return array.cells[OffsetIn(array.shape, at)];
  }

  void Assemble(size_t m, const std::vector<Packet<FieldCell>>& received) {
    const HaloRoutes& routes = *routes_[m];
    std::vector<std::vector<int>> written;
    for (const FieldArray& array : wanted_[m]) {
      written.emplace_back(array.cells.size(), 0);
    }
    const auto write = [&](const HaloBox& box, const std::vector<int64_t>& at,
                           const FieldCell& cell) {
      const FieldArray& wanted = wanted_[m][box.field];
      const int64_t offset = OffsetIn(wanted.shape, TargetOf(box, at));
      ++written[box.field][offset];
      if (!(wanted.cells[offset] == cell)) {
        Fail("rank ", halo_.ranks[m], ", field ", box.field, ", cell ", offset,
             " is cell ", cell.index, " of replica ", cell.replica,
             " or constant ", cell.constant, ", not ",
             wanted.cells[offset].index, " of replica ",
             wanted.cells[offset].replica, " or constant ",
             wanted.cells[offset].constant);
      }
    };
    for (const HaloBox& box : routes.own) {
      ForEachCell(CountsOf(box), [&](const std::vector<int64_t>& at) {
        write(box, at, CellAt(blocks_[m], box, SourceOf(box, at)));
      });
    }
    for (const HaloFill& fill : routes.fills) {
      ForEachCell(CountsOf(fill.box), [&](const std::vector<int64_t>& at) {
        write(fill.box, at, {.constant = fill.value});
      });
    }
    for (size_t i = 0; i < received.size(); ++i) {
      const HaloMessage& message = routes.receives[i];
      const MessageLayout layout(halo_.fields, message);
      for (size_t n = 0; n < message.boxes.size(); ++n) {
        const HaloBox& box = message.boxes[n];
        ForEachCell(CountsOf(box), [&](const std::vector<int64_t>& at) {
          const auto found =
              received[i].elements.find(layout.ByteOf(n, box, at));
          if (found == received[i].elements.end()) return Fail("no such byte");
          write(box, at, found->second);
        });
      }
    }
    for (const std::vector<int>& counts : written) {
      for (const int count : counts) {
        if (count != 1) Fail("a cell is written ", count, " times");
      }
    }
  }

  // --- The adjoint ---

  using Sums = std::vector<std::vector<int64_t>>;  // by field and cell

  void Adjoint() {
    std::vector<Sums> gradients, sums, wanted;
    for (size_t m = 0; m < routes_.size(); ++m) {
      gradients.emplace_back();
      sums.emplace_back();
      for (size_t f = 0; f < halo_.fields.size(); ++f) {
        gradients[m].emplace_back(wanted_[m][f].cells.size());
        for (int64_t& gradient : gradients[m][f]) {
          gradient = static_cast<int64_t>(random_() % 1000);
        }
        sums[m].emplace_back(blocks_[m][f].cells.size(), 0);
      }
    }
    wanted = sums;
    Transpose(gradients, &wanted);

    std::vector<std::vector<Packet<int64_t>>> sent(routes_.size());
    for (size_t m = 0; m < routes_.size(); ++m) {
      for (const HaloBox& box : routes_[m]->own) {
        ForEachCell(CountsOf(box), [&](const std::vector<int64_t>& at) {
          sums[m][box.field][BlockOffset(m, box, at)] +=
              gradients[m][box.field][PaddedOffset(m, box, at)];
        });
      }
      for (const HaloMessage& message : routes_[m]->receives) {
        sent[m].push_back(PackGradients(m, message, gradients[m]));
      }
    }
    const auto received =
        Exchange(2 * index_ + 2, std::move(sent), All(&HaloRoutes::receives),
                 All(&HaloRoutes::sends));
    for (size_t m = 0; m < routes_.size() && !fault_; ++m) {
      for (size_t i = 0; i < received[m].size(); ++i) {
        AddGradients(m, routes_[m]->sends[i], received[m][i], &sums[m]);
      }
      if (sums[m] != wanted[m]) Fail("the adjoint of rank ", halo_.ranks[m]);
    }
  }

  int64_t BlockOffset(size_t m, const HaloBox& box,
                      const std::vector<int64_t>& at) const {
    return OffsetIn(blocks_[m][box.field].shape, SourceOf(box, at));
  }
  int64_t PaddedOffset(size_t m, const HaloBox& box,
                       const std::vector<int64_t>& at) const {
    return OffsetIn(wanted_[m][box.field].shape, TargetOf(box, at));
  }

  void Transpose(const std::vector<Sums>& gradients, std::vector<Sums>* sums) {
    for (size_t f = 0; f < halo_.fields.size(); ++f) {
      std::map<std::pair<int, int64_t>, int64_t*> sum_of;
      for (size_t m = 0; m < routes_.size(); ++m) {
        const std::vector<FieldCell>& cells = blocks_[m][f].cells;
        for (size_t i = 0; i < cells.size(); ++i) {
          sum_of[{cells[i].replica, cells[i].index}] = &(*sums)[m][f][i];
        }
      }
      for (size_t m = 0; m < routes_.size(); ++m) {
        const std::vector<FieldCell>& cells = wanted_[m][f].cells;
        for (size_t i = 0; i < cells.size(); ++i) {
          if (cells[i].index < 0) continue;
          *sum_of.at({cells[i].replica, cells[i].index}) += gradients[m][f][i];
        }
      }
    }
  }

  Packet<int64_t> PackGradients(size_t m, const HaloMessage& message,
                                const Sums& gradients) {
    const MessageLayout layout(halo_.fields, message);
    Packet<int64_t> packet{.bytes = message.bytes};
    for (size_t n = 0; n < message.boxes.size(); ++n) {
      const HaloBox& box = message.boxes[n];
      ForEachCell(CountsOf(box), [&](const std::vector<int64_t>& at) {
        packet.elements[layout.ByteOf(n, box, at)] +=
            gradients[box.field][PaddedOffset(m, box, at)];
      });
    }
    return packet;
  }

  void AddGradients(size_t m, const HaloMessage& message,
                    const Packet<int64_t>& packet, Sums* sums) {
    const MessageLayout layout(halo_.fields, message);
    for (size_t n = 0; n < message.boxes.size(); ++n) {
      const HaloBox& box = message.boxes[n];
      ForEachCell(PackedCountsOf(box), [&](const std::vector<int64_t>& at) {
        const auto found = packet.elements.find(layout.ByteOf(n, box, at));
        if (found == packet.elements.end()) return Fail("no such gradient");
        (*sums)[box.field][BlockOffset(m, box, at)] += found->second;
      });
    }
  }

  const Plan& plan_;
  const Halo& halo_;
  const int index_;
  std::mt19937_64& random_;
  std::optional<std::string> fault_;
  std::vector<const HaloRoutes*> routes_;        // of the members
  std::vector<std::vector<FieldArray>> blocks_;  // by member and field
  std::vector<std::vector<FieldArray>> wanted_;  // padded blocks
};

// Transfers of halos that no exchange runs.
std::optional<std::string> IdleTransfer(const Plan& plan) {
  for (const RankPlan& rank : plan.ranks) {
    for (const Lane& lane : rank.lanes) {
      for (const Transfer& transfer : lane.transfers) {
        const int h = transfer.halo;
        if (lane.kind != LaneKind::kHalo) {
          if (h >= 0) return "an exchange in a lane of another kind";
          continue;
        }
        const bool runs =
            h >= 0 && h < static_cast<int>(plan.halos.size()) &&
            (transfer.group == 2 * h + 1 || transfer.group == 2 * h + 2);
        if (!runs) return "a transfer in a halo lane that no exchange runs";
      }
    }
  }
  return std::nullopt;
}

// Names are unique on a rank, and routes are of exchanges that exist.
std::optional<std::string> AmbiguousName(const Plan& plan) {
  std::set<std::pair<std::string, int>> names;
  for (const Halo& halo : plan.halos) {
    for (const int rank : halo.ranks) {
      if (!names.insert({halo.name, rank}).second) {
        return "a rank has an exchange twice";
      }
    }
  }
  for (const RankPlan& rank : plan.ranks) {
    for (const HaloRoutes& routes : rank.halos) {
      if (routes.halo < 0 ||
          routes.halo >= static_cast<int>(plan.halos.size())) {
        return "routes of no exchange";
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> HaloFaultIn(const Plan& plan, uint64_t seed) {
  if (auto fault = AmbiguousName(plan)) return fault;
  if (auto fault = IdleTransfer(plan)) return fault;
  std::mt19937_64 random(seed);
  for (size_t h = 0; h < plan.halos.size(); ++h) {
    auto fault = HaloRun(plan, static_cast<int>(h), random).Run();
    if (fault) return fault;
  }
  return std::nullopt;
}

}  // namespace lockstep::plan::oracle

#include "plan/verify/halos.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "base/text/utf8.h"
#include "plan/verify/halo_boxes.h"
#include "protocol/halo.h"

namespace lockstep::plan {
namespace {

// --- Fields -----------------------------------------------------------------

std::string ExtentFault(const Halo& halo, const HaloField& field,
                        const HaloExtent& extent) {
  const int axes = static_cast<int>(halo.mesh.axes.size());
  if (extent.axis < -1 || extent.axis >= axes) {
    return absl::StrFormat("is cut over axis %d of %d", extent.axis, axes);
  }
  const size_t blocks =
      extent.axis < 0 ? 1
                      : static_cast<size_t>(halo.mesh.axes[extent.axis].size);
  const std::vector<int64_t>& bounds = extent.bounds;
  if (bounds.size() != blocks + 1 || bounds[0] != 0) {
    return absl::StrFormat("has %d bounds, and must have %d from 0",
                           bounds.size(), blocks + 1);
  }
  for (size_t b = 0; b < blocks; ++b) {
    // No sum of these sizes overflows.
    if (bounds[b] < bounds[b + 1] &&
        bounds[b + 1] - bounds[b] <= kHaloBytesMax) {
      continue;
    }
    return absl::StrFormat("has block %d from %d to %d", b, bounds[b],
                           bounds[b + 1]);
  }
  const int64_t size = bounds.back();
  const int64_t widest = std::max(extent.low, extent.high);
  if (std::min(extent.low, extent.high) < 0 || widest > kHaloBytesMax ||
      (extent.edge == HaloEdge::kReflect && widest >= size)) {
    return absl::StrFormat("has %d cells, edge %s, and the widths %d and %d",
                           size, Name(extent.edge), extent.low, extent.high);
  }
  if (Name(extent.edge) == "?") {
    return absl::StrFormat("has edge %d", static_cast<int>(extent.edge));
  }
  const bool is_given = extent.edge == HaloEdge::kConstant;
  if (is_given ? !IsHaloConstant(field.dtype, extent.constant)
               : std::bit_cast<uint64_t>(extent.constant) != 0) {
    return absl::StrFormat("has edge %s, and the constant %g of %s",
                           Name(extent.edge), extent.constant,
                           Name(field.dtype));
  }
  return "";
}

// Whether every padded block has at most kHaloBytesMax.
bool FitsInMemory(const HaloField& field) {
  int64_t left = kHaloBytesMax / static_cast<int64_t>(SizeOf(field.dtype));
  for (const HaloExtent& extent : field.dims) {
    int64_t largest = 0;
    for (size_t b = 0; b + 1 < extent.bounds.size(); ++b) {
      int64_t begin = extent.bounds[b] - extent.low;
      int64_t end = extent.bounds[b + 1] + extent.high;
      if (extent.edge == HaloEdge::kNone) {
        begin = std::max<int64_t>(begin, 0);
        end = std::min(end, extent.bounds.back());
      }
      largest = std::max(largest, end - begin);
    }
    if (largest > left) return false;
    left /= largest;
  }
  return true;
}

std::string FieldFault(const Halo& halo, const HaloField& field) {
  if (SizeOf(field.dtype) == 0) return "has no dtype";
  if (field.dims.size() > size_t{kHaloDimsMax}) {
    return absl::StrFormat("has %d dimensions", field.dims.size());
  }
  std::set<int> axes;
  for (size_t d = 0; d < field.dims.size(); ++d) {
    std::string fault = ExtentFault(halo, field, field.dims[d]);
    if (fault.empty() && field.dims[d].axis >= 0 &&
        !axes.insert(field.dims[d].axis).second) {
      fault = absl::StrCat("is cut over axis ", field.dims[d].axis, " again");
    }
    if (!fault.empty()) return absl::StrCat("dimension ", d, " ", fault);
  }
  if (!FitsInMemory(field)) {
    return absl::StrFormat("has more than %d bytes on a rank", kHaloBytesMax);
  }
  return "";
}

// --- Groups -----------------------------------------------------------------

std::string MeshFault(const Mesh& mesh, const Halo& halo) {
  int last = -1;
  for (size_t i = 0; i < halo.mesh.axes.size(); ++i) {
    const MeshAxis& axis = halo.mesh.axes[i];
    const int known = mesh.AxisIndex(axis.name);
    if (known <= last || mesh.axes[known].size != axis.size) {
      return absl::StrFormat("is cut over %s: no axes of mesh %s in its order",
                             ToString(halo.mesh), ToString(mesh));
    }
    last = known;
    const bool cuts = std::any_of(
        halo.fields.begin(), halo.fields.end(), [i](const HaloField& field) {
          return std::any_of(field.dims.begin(), field.dims.end(),
                             [i](const HaloExtent& extent) {
                               return extent.axis == static_cast<int>(i);
                             });
        });
    if (!cuts) return absl::StrFormat("has no field that %s cuts", axis.name);
  }
  return "";
}

std::string GroupFault(const Plan& plan, const Halo& halo) {
  std::string fault = MeshFault(plan.mesh, halo);
  if (!fault.empty()) return fault;
  const int world = static_cast<int>(plan.ranks.size());
  std::vector<std::string> axes;
  for (const MeshAxis& axis : halo.mesh.axes) axes.push_back(axis.name);
  // In this order: the group of a rank is made only if it is as large.
  if (halo.ranks.size() != static_cast<size_t>(halo.mesh.WorldSize()) ||
      halo.ranks[0] < 0 || halo.ranks[0] >= world ||
      plan.mesh.GroupOf(halo.ranks[0], axes) != halo.ranks) {
    return absl::StrFormat("has %s, which are no group over %s",
                           RankList(halo.ranks), ToString(halo.mesh));
  }
  if (halo.ranks.size() == 1) {
    return halo.communicator == -1
               ? ""
               : absl::StrFormat("has communicator %d, and one rank",
                                 halo.communicator);
  }
  // Communicator 0 is the verdict's.
  if (halo.communicator < 1 ||
      static_cast<size_t>(halo.communicator) >= plan.communicators.size()) {
    return absl::StrFormat("has communicator %d of %d", halo.communicator,
                           plan.communicators.size());
  }
  const CommunicatorSpec& spec = plan.communicators[halo.communicator];
  if (spec.ranks == halo.ranks) return "";
  return absl::StrFormat("has %s, and communicator %s has %s",
                         RankList(halo.ranks), spec.name, RankList(spec.ranks));
}

std::string HaloFault(const Plan& plan, const Halo& halo) {
  if (halo.name.empty() || halo.name.size() > kHaloNameBytesMax ||
      !IsPrintableUtf8(halo.name)) {
    return "has a name that is empty, too long or not printable";
  }
  if (halo.fields.empty() || halo.fields.size() > kHaloTensorsMax) {
    return absl::StrFormat("has %d fields", halo.fields.size());
  }
  std::string fault = GroupFault(plan, halo);
  if (!fault.empty()) return fault;
  for (size_t f = 0; f < halo.fields.size(); ++f) {
    fault = FieldFault(halo, halo.fields[f]);
    if (!fault.empty()) return absl::StrCat("field ", f, ": ", fault);
  }
  return "";
}

// --- Lanes ------------------------------------------------------------------

// The transfers of one group: first the messages that the rank sends.
void AddNeeded(const Halo& halo, int index, int group,
               const std::vector<HaloMessage>& sends,
               const std::vector<HaloMessage>& receives,
               std::vector<Transfer>* needed) {
  const auto add = [&](TransferKind kind, const HaloMessage& message) {
    needed->push_back({.kind = kind,
                       .communicator = halo.communicator,
                       .dtype = DType::kU8,
                       .shape = {message.bytes},
                       .peer = message.peer,
                       .tag = static_cast<uint64_t>(group),
                       .halo = index,
                       .group = group});
  };
  for (const HaloMessage& m : sends) add(TransferKind::kSend, m);
  for (const HaloMessage& m : receives) add(TransferKind::kRecv, m);
}

std::string MessageText(const Transfer& t) {
  // Not Describe, which counts elements: the shape has not been checked.
  return absl::StrFormat(
      "%s of [%s] %s, peer %d, tag %d, communicator %d, exchange %d, group %d",
      Name(t.kind), absl::StrJoin(t.shape, ","), Name(t.dtype), t.peer, t.tag,
      t.communicator, t.halo, t.group);
}

// --- The check --------------------------------------------------------------

class HaloCheck {
 public:
  HaloCheck(const Plan& plan, Diagnostics& diagnostics)
      : plan_(plan), diagnostics_(diagnostics) {}

  void Run() {
    CheckExchanges();
    if (diagnostics_.empty()) FindRoutes();
    if (!diagnostics_.empty()) return;
    for (size_t h = 0; h < plan_.halos.size(); ++h) {
      if (diagnostics_.full()) return;
      CheckRoutes(plan_.halos[h], routes_[h]);
    }
    if (!diagnostics_.empty()) return;
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      CheckLanes(static_cast<int>(rank));
    }
  }

 private:
  using RoutesOfMembers = std::vector<const HaloRoutes*>;

  void Find(std::vector<int> ranks, const std::string& text) {
    diagnostics_.Add(Rule::kHalos, std::move(ranks), text);
  }

  static std::string NameOf(const Halo& halo) {
    return absl::StrCat("halo ", absl::Utf8SafeCEscape(halo.name));
  }

  void CheckExchanges() {
    std::set<std::pair<std::string_view, int>> names;
    for (const Halo& halo : plan_.halos) {
      const std::string fault = HaloFault(plan_, halo);
      if (!fault.empty()) {
        Find({}, absl::StrCat(NameOf(halo), " ", fault));
        continue;
      }
      for (const int rank : halo.ranks) {
        if (names.insert({halo.name, rank}).second) continue;
        Find({rank}, absl::StrCat("has ", NameOf(halo), " twice"));
      }
    }
  }

  // Sets routes_, all of which exist if there are no findings.
  void FindRoutes() {
    for (const Halo& halo : plan_.halos) {
      routes_.emplace_back(halo.ranks.size(), nullptr);
    }
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      const int rank = static_cast<int>(r);
      int last = -1;
      for (const HaloRoutes& routes : plan_.ranks[r].halos) {
        const int h = routes.halo;
        if (h <= last || static_cast<size_t>(h) >= plan_.halos.size()) {
          return Find({rank}, absl::StrFormat("has exchange %d after exchange "
                                              "%d, of %d",
                                              h, last, plan_.halos.size()));
        }
        last = h;
        // A group is in ascending order.
        const std::vector<int>& ranks = plan_.halos[h].ranks;
        const auto member = std::lower_bound(ranks.begin(), ranks.end(), rank);
        if (member == ranks.end() || *member != rank) {
          return Find({rank},
                      absl::StrCat("has routes of ", NameOf(plan_.halos[h]),
                                   " of ", RankList(ranks)));
        }
        routes_[h][member - ranks.begin()] = &routes;
      }
    }
    for (size_t h = 0; h < plan_.halos.size(); ++h) {
      for (size_t m = 0; m < routes_[h].size(); ++m) {
        if (routes_[h][m] != nullptr) continue;
        Find({plan_.halos[h].ranks[m]},
             absl::StrCat("has no routes of ", NameOf(plan_.halos[h])));
      }
    }
  }

  void CheckRoutes(const Halo& halo, const RoutesOfMembers& routes) {
    for (size_t m = 0; m < routes.size(); ++m) {
      const std::string fault =
          HaloBoxCheck(halo, static_cast<int>(m)).FaultOf(*routes[m]);
      if (fault.empty()) continue;
      return Find({halo.ranks[m]}, absl::StrCat(NameOf(halo), ": ", fault));
    }
    for (size_t m = 0; m < routes.size(); ++m) {
      CheckBothSides(halo, routes, static_cast<int>(m));
    }
  }

  // What the member sends and its peers receive, and the other way round.
  void CheckBothSides(const Halo& halo, const RoutesOfMembers& routes,
                      int member) {
    const auto other_side = [](const std::vector<HaloMessage>& messages,
                               int peer) -> const HaloMessage* {
      const auto found =
          std::lower_bound(messages.begin(), messages.end(), peer,
                           [](const HaloMessage& message, int number) {
                             return message.peer < number;
                           });
      return found != messages.end() && found->peer == peer ? &*found : nullptr;
    };
    for (const HaloMessage& sent : routes[member]->sends) {
      const HaloMessage* const received =
          other_side(routes[sent.peer]->receives, member);
      if (received != nullptr && received->bytes == sent.bytes &&
          received->boxes == sent.boxes) {
        continue;
      }
      Find({halo.ranks[member], halo.ranks[sent.peer]},
           absl::StrFormat(
               "%s: rank %d sends %d bytes in %d boxes to rank %d, "
               "which receives %s",
               NameOf(halo), halo.ranks[member], sent.bytes, sent.boxes.size(),
               halo.ranks[sent.peer],
               received == nullptr
                   ? "none"
                   : absl::StrFormat("%d bytes in %d other boxes",
                                     received->bytes, received->boxes.size())));
    }
    for (const HaloMessage& received : routes[member]->receives) {
      if (other_side(routes[received.peer]->sends, member) != nullptr) continue;
      Find({halo.ranks[member], halo.ranks[received.peer]},
           absl::StrFormat("%s: rank %d receives %d bytes from rank %d, which "
                           "sends none",
                           NameOf(halo), halo.ranks[member], received.bytes,
                           halo.ranks[received.peer]));
    }
  }

  void CheckLanes(int rank) {
    std::map<int, std::vector<Transfer>> needed = NeededOn(rank);
    for (const Lane& lane : plan_.ranks[rank].lanes) {
      if (lane.kind != LaneKind::kHalo) {
        CheckOtherLane(rank, lane);
        continue;
      }
      const int communicator =
          lane.transfers.empty() ? -1 : lane.transfers[0].communicator;
      const auto wanted = needed.find(communicator);
      if (wanted == needed.end()) {
        return Find({rank},
                    absl::StrFormat("lane %s, of communicator %d, has no "
                                    "messages of an exchange, or has them "
                                    "again",
                                    lane.name, communicator));
      }
      if (!CheckLane(rank, lane, wanted->second)) return;
      needed.erase(wanted);
    }
    for (const auto& [communicator, transfers] : needed) {
      Find({rank}, absl::StrFormat("has no lane with the messages over %s",
                                   plan_.communicators[communicator].name));
    }
  }

  std::map<int, std::vector<Transfer>> NeededOn(int rank) const {
    std::map<int, std::vector<Transfer>> needed;
    for (const HaloRoutes& routes : plan_.ranks[rank].halos) {
      if (routes.sends.empty() && routes.receives.empty()) continue;
      const Halo& halo = plan_.halos[routes.halo];
      std::vector<Transfer>* const lane = &needed[halo.communicator];
      const int group = 2 * routes.halo + 1;
      AddNeeded(halo, routes.halo, group, routes.sends, routes.receives, lane);
      AddNeeded(halo, routes.halo, group + 1, routes.receives, routes.sends,
                lane);
    }
    return needed;
  }

  void CheckOtherLane(int rank, const Lane& lane) {
    for (size_t i = 0; i < lane.transfers.size(); ++i) {
      if (lane.transfers[i].halo == -1) continue;
      return Find({rank},
                  absl::StrFormat("transfer %d of lane %s is of exchange %d: "
                                  "it is no halo lane",
                                  i, lane.name, lane.transfers[i].halo));
    }
  }

  bool CheckLane(int rank, const Lane& lane,
                 const std::vector<Transfer>& needed) {
    const size_t both = std::min(lane.transfers.size(), needed.size());
    for (size_t i = 0; i < both; ++i) {
      if (lane.transfers[i] == needed[i]) continue;
      Find({rank}, absl::StrFormat(
                       "transfer %d of lane %s is %s, and must be "
                       "%s, without a bucket, a buffer, local operations or "
                       "anything to wait for",
                       i, lane.name, MessageText(lane.transfers[i]),
                       MessageText(needed[i])));
      return false;
    }
    if (lane.transfers.size() == needed.size()) return true;
    Find({rank},
         absl::StrFormat("lane %s has %d transfers, its exchanges %d "
                         "messages",
                         lane.name, lane.transfers.size(), needed.size()));
    return false;
  }

  const Plan& plan_;
  Diagnostics& diagnostics_;
  std::vector<RoutesOfMembers> routes_;  // of each exchange
};

}  // namespace

void CheckHalos(const Plan& plan, Diagnostics& diagnostics) {
  HaloCheck(plan, diagnostics).Run();
}

}  // namespace lockstep::plan

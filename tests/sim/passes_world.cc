#include "tests/sim/passes_world.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace lockstep::sim {

using Stage = Device::Stage;

PassesWorld::PassesWorld(std::shared_ptr<const core::PassGroups> groups,
                         const Bounds& bounds)
    : groups_(std::move(groups)),
      bounds_(bounds),
      coordinator_(groups_, core::Negotiation::Begins::kAnew) {}

// --- Possible events --------------------------------------------------------

template <typename Event>
void PassesWorld::Branch(std::vector<std::pair<std::string, PassesWorld>>* next,
                         std::string name, Event event) const {
  next->emplace_back(std::move(name), *this);
  event(next->back().second);
}

std::vector<std::pair<std::string, PassesWorld>> PassesWorld::Next() const {
  std::vector<std::pair<std::string, PassesWorld>> next;
  for (int d = 0; d < kDevices; ++d) {
    const Device& device = devices_[d];
    const std::string who = absl::StrCat("device ", d, " ");
    if (device.stage == Stage::kBetween && device.pass < bounds_.passes) {
      for (unsigned set = 0; set < 1u << kParameters; ++set) {
        Branch(&next, absl::StrCat(who, "announces ", set),
               [&](PassesWorld& w) { w.Announce(d, set); });
      }
    }
    if (device.stage == Stage::kInPass) {
      const unsigned open = device.announced & ~device.submitted;
      for (uint32_t p = 0; p < kParameters; ++p) {
        if ((open >> p & 1) == 0) continue;
        Branch(&next, absl::StrCat(who, "submits ", p),
               [&](PassesWorld& w) { w.Submit(d, {p}); });
      }
      if (std::popcount(open) > 1) {
        Branch(&next, absl::StrCat(who, "submits all"), [&](PassesWorld& w) {
          w.Submit(d, {0, 1});
        });
      }
      if (device.closed) {
        Branch(&next, absl::StrCat(who, "enters the verdict"),
               [&](PassesWorld& w) { w.EnterVerdict(d); });
      }
    }
    const bool all_entered =
        std::all_of(devices_.begin(), devices_.end(), [&](const Device& other) {
          return other.pass > device.pass || other.stage == Stage::kInVerdict;
        });
    if (device.stage == Stage::kInVerdict && all_entered) {
      Branch(&next, absl::StrCat(who, "passes the verdict"),
             [&](PassesWorld& w) { w.PassVerdict(d); });
    }
    if (!words_[d].empty()) {
      Branch(&next, absl::StrCat(who, "is heard"),
             [&](PassesWorld& w) { w.DeliverWord(d); });
    }
    if (!decisions_[d].empty()) {
      Branch(&next, absl::StrCat(who, "hears"),
             [&](PassesWorld& w) { w.DeliverDecisions(d); });
    }
    if (!device.connected) {
      Branch(&next, absl::StrCat(who, "reconnects"),
             [&](PassesWorld& w) { w.Reconnect(d); });
    } else if (bounds_.cuts > 0) {
      Branch(&next, absl::StrCat(who, "is cut"),
             [&](PassesWorld& w) { w.Cut(d); });
    }
  }
  if (bounds_.crashes > 0) {
    Branch(&next, "the coordinator crashes",
           [&](PassesWorld& w) { w.Crash(); });
  }
  return next;
}

bool PassesWorld::Over() const {
  return std::all_of(
      devices_.begin(), devices_.end(),
      [this](const Device& device) { return device.pass == bounds_.passes; });
}

// --- The devices ------------------------------------------------------------

void PassesWorld::Announce(int d, unsigned parameters) {
  Device& device = devices_[d];
  device.stage = Stage::kInPass;
  device.announced = parameters;
  announced_[device.pass][d] = parameters;
  protocol::Announce announce{.pass = device.pass};
  for (uint32_t p = 0; p < kParameters; ++p) {
    if (parameters >> p & 1) announce.parameters.push_back(p);
  }
  device.passes.Announce(announce);
  Post(d, announce);
}

void PassesWorld::Submit(int d, const std::vector<uint32_t>& parameters) {
  Device& device = devices_[d];
  for (const uint32_t p : parameters) device.submitted |= 1u << p;
  const protocol::Submitted submitted{device.pass, parameters};
  device.passes.Submit(submitted);
  Post(d, submitted);
}

void PassesWorld::EnterVerdict(int d) {
  Device& device = devices_[d];
  device.stage = Stage::kInVerdict;
  unsigned any = 0;
  for (const unsigned set : announced_.at(device.pass)) any |= set;
  if (device.reduced != any) Break("reduced what was announced, no more");
}

void PassesWorld::PassVerdict(int d) {
  Device& device = devices_[d];
  ++device.pass;
  device.stage = Stage::kBetween;
  device.announced = device.submitted = device.reduced = 0;
  device.closed = false;
  // State that both devices have passed is dropped.
  const auto [behind, ahead] = std::minmax(devices_[0].pass, devices_[1].pass);
  if (ahead > behind + 1) Break("at most one pass apart");
  announced_.erase(announced_.begin(), announced_.lower_bound(behind));
  const uint64_t both = std::min(devices_[0].heard, devices_[1].heard);
  sequence_.erase(sequence_.begin(), sequence_.lower_bound(both));
}

void PassesWorld::Post(int d, Word word) {
  if (devices_[d].connected) words_[d].push_back(std::move(word));
}

void PassesWorld::DeliverDecisions(int d) {
  const protocol::Decide decide = decisions_[d].front();
  decisions_[d].erase(decisions_[d].begin());
  const auto news = devices_[d].passes.Receive(decide);
  if (!news.ok()) return Break(std::string(news.status().message()));
  for (const protocol::Decision& decision : *news) {
    Reduce(d, devices_[d].heard++, decision);
  }
}

void PassesWorld::Reduce(int d, uint64_t number,
                         const protocol::Decision& decision) {
  Device& device = devices_[d];
  const auto [first, is_new] = sequence_.emplace(number, decision);
  if (!is_new && first->second != decision) Break("one sequence for all");
  if (decision.pass != device.pass || device.stage != Stage::kInPass) {
    return Break("decisions of the pass in progress only");
  }
  if (device.closed) Break("nothing after the close");
  if (decision.announcers == 0) {
    device.closed = true;
    return;
  }
  const unsigned bit = 1u << decision.parameter;
  uint32_t announcers = 0;
  for (const unsigned set : announced_.at(decision.pass)) {
    if (set & bit) ++announcers;
  }
  if (announcers != decision.announcers) Break("the announcers are counted");
  if (device.reduced & bit) Break("each parameter once in a pass");
  if (device.announced & bit & ~device.submitted) {
    Break("nothing before it is submitted");
  }
  device.reduced |= bit;
}

// --- The coordinator and its streams ----------------------------------------

void PassesWorld::DeliverWord(int d) {
  const Word word = words_[d].front();
  words_[d].erase(words_[d].begin());
  std::visit(
      [&](const auto& w) {
        if constexpr (requires { coordinator_.Receive(d, w); }) {
          const auto objection = coordinator_.Receive(d, w);
          if (objection) Break(objection->what);
        }
      },
      word);
  for (auto& [told, decide] : coordinator_.TakeUntold()) {
    if (devices_[told].connected) decisions_[told].push_back(std::move(decide));
  }
}

void PassesWorld::Cut(int d) {
  --bounds_.cuts;
  devices_[d].connected = false;
  words_[d].clear();
  decisions_[d].clear();
}

void PassesWorld::Crash() {
  --bounds_.crashes;
  for (int d = 0; d < kDevices; ++d) {
    devices_[d].connected = false;
    words_[d].clear();
    decisions_[d].clear();
  }
  coordinator_ = core::Negotiation(groups_, core::Negotiation::Begins::kAgain);
}

void PassesWorld::Reconnect(int d) {
  devices_[d].connected = true;
  coordinator_.Resume(d);
  for (auto& word : devices_[d].passes.Restate()) Post(d, std::move(word));
}

void PassesWorld::Break(const std::string& promise) {
  if (broken_.empty()) broken_ = promise;
}

// --- Comparison and hash ----------------------------------------------------

size_t PassesWorld::Hash() const {
  size_t hash = absl::HashOf(bounds_.crashes, bounds_.cuts);
  for (const auto& [number, decision] : sequence_) {
    hash = absl::HashOf(hash, number, decision.parameter, decision.announcers);
  }
  for (int d = 0; d < kDevices; ++d) {
    const Device& device = devices_[d];
    hash = absl::HashOf(hash, device.pass, static_cast<int>(device.stage),
                        device.announced, device.submitted, device.reduced,
                        device.closed, device.connected, device.heard,
                        words_[d].size(), decisions_[d].size());
  }
  return absl::HashOf(hash, coordinator_.open_pass(), coordinator_.Done(0),
                      coordinator_.Done(1));
}

bool PassesWorld::operator==(const PassesWorld& other) const {
  return bounds_.crashes == other.bounds_.crashes &&
         bounds_.cuts == other.bounds_.cuts && devices_ == other.devices_ &&
         words_ == other.words_ && decisions_ == other.decisions_ &&
         announced_ == other.announced_ && sequence_ == other.sequence_ &&
         coordinator_ == other.coordinator_;
}

}  // namespace lockstep::sim

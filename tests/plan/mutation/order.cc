#include "tests/plan/mutation/order.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep::plan::oracle {
namespace {

class Order {
 public:
  explicit Order(const Wiring& wiring)
      : steps_(wiring.steps()),
        words_((steps_.size() + 63) / 64),
        unit_of_(steps_.size()),
        before_(steps_.size() * words_, 0),
        visited_(steps_.size(), 0) {
    for (const auto& queue : wiring.queues()) {
      for (size_t u = 0; u < queue.size(); ++u) {
        for (const int step : queue[u]) {
          unit_of_[step] = {&queue[u], u > 0 ? &queue[u - 1] : nullptr};
        }
      }
    }
    for (size_t i = 0; i < steps_.size(); ++i) Visit(static_cast<int>(i));
  }

  // True if `a` is complete before `b` starts, in every interleaving.
  bool Precedes(int a, int b) const {
    return (before_[b * words_ + a / 64] >> (a % 64) & 1) != 0;
  }
  bool InOneUnit(int a, int b) const {
    return unit_of_[a].first == unit_of_[b].first;
  }

 private:
  using Unit = std::vector<int>;

  // Steps of a cycle never start; their rows may be incomplete.
  void Visit(int step) {
    if (visited_[step] != 0) return;
    visited_[step] = 1;
    const auto [unit, unit_before] = unit_of_[step];
    const auto add = [&](int other) {
      Visit(other);
      uint64_t* const row = &before_[step * words_];
      const uint64_t* const others = &before_[other * words_];
      for (size_t w = 0; w < words_; ++w) row[w] |= others[w];
      row[other / 64] |= uint64_t{1} << (other % 64);
    };
    if (unit_before != nullptr) {
      for (const int other : *unit_before) add(other);
    }
    for (const int member : *unit) {
      for (const int need : steps_[member].needs) add(need);
    }
  }

  const std::vector<Step>& steps_;
  const size_t words_;
  std::vector<std::pair<const Unit*, const Unit*>> unit_of_;  // and before
  std::vector<uint64_t> before_;  // a row for each step: the steps before it
  std::vector<uint8_t> visited_;
};

}  // namespace

std::vector<bool> OrderedSteps(const Wiring& wiring, const Memory& memory) {
  const Order order(wiring);
  const std::vector<Step>& steps = wiring.steps();
  std::vector<bool> ordered(steps.size(), true);
  std::vector<std::vector<std::pair<int, bool>>> users(memory.cells());
  std::map<std::tuple<int, int, TransferKind>, std::vector<int>> sides;
  for (size_t i = 0; i < steps.size(); ++i) {
    const int number = static_cast<int>(i);
    for (const Access& access : memory.AccessesOf(number)) {
      users[access.cell].emplace_back(number, access.writes);
    }
    if (steps[i].channel == kNone) continue;
    const TransferKind kind = steps[i].transfer->kind;
    const TransferKind side =
        IsPointToPoint(kind) ? kind : TransferKind::kBarrier;
    sides[{steps[i].channel, steps[i].rank, side}].push_back(number);
  }
  const auto compare = [&](int a, int b) {
    if (order.Precedes(a, b) || order.Precedes(b, a)) return;
    ordered[a] = ordered[b] = false;
  };
  for (const auto& of_cell : users) {
    for (size_t a = 0; a < of_cell.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (of_cell[a].first == of_cell[b].first) continue;
        if (!of_cell[a].second && !of_cell[b].second) continue;
        compare(of_cell[a].first, of_cell[b].first);
      }
    }
  }
  for (const auto& [side, of_side] : sides) {
    for (size_t a = 0; a < of_side.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (order.InOneUnit(of_side[a], of_side[b])) continue;
        compare(of_side[a], of_side[b]);
      }
    }
  }
  std::vector<bool> channels(wiring.channels(), true);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].channel != kNone && !ordered[i])
      channels[steps[i].channel] = false;
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].channel != kNone) ordered[i] = channels[steps[i].channel];
  }
  return ordered;
}

}  // namespace lockstep::plan::oracle

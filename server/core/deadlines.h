// For each key a moment, and which of them have passed.
//
// A lease, a resume window, a progress lease are all this: a moment that is
// moved on, dropped, or reached. Never reads a clock: each call is told the
// time, and Next() says when it would like to be asked again.
//
//   Set(w, now + lease)   now ───────────── now + lease
//                          └── holds ──────┘└── due, until Set or Clear
//
// Costs O(log n) a call. Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_DEADLINES_H_
#define LOCKSTEP_SERVER_CORE_DEADLINES_H_

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::core {

template <typename Key>
class Deadlines {
 public:
  // Sets or moves the moment of `key`.
  void Set(const Key& key, absl::Time moment) {
    const auto [entry, is_new] = moment_of_.try_emplace(key, moment);
    if (!is_new) {
      order_.erase({entry->second, key});
      entry->second = moment;
    }
    order_.insert({moment, key});
  }

  void Clear(const Key& key) {
    const auto entry = moment_of_.find(key);
    if (entry == moment_of_.end()) return;
    order_.erase({entry->second, key});
    moment_of_.erase(entry);
  }

  void ClearAll() {
    moment_of_.clear();
    order_.clear();
  }

  bool Has(const Key& key) const { return moment_of_.count(key) > 0; }

  // Removes and returns every key whose moment is at or before `now`, in order
  // of moment, then key, so that two runs of the same history agree.
  std::vector<Key> TakeDue(absl::Time now) {
    std::vector<Key> due;
    while (!order_.empty() && order_.begin()->first <= now) {
      due.push_back(order_.begin()->second);
      moment_of_.erase(order_.begin()->second);
      order_.erase(order_.begin());
    }
    return due;
  }

  // Every key, in its own order.
  std::vector<Key> Keys() const {
    std::vector<Key> keys;
    for (const auto& [key, moment] : moment_of_) keys.push_back(key);
    return keys;
  }

  // The first moment at which TakeDue could return something; InfiniteFuture
  // when nothing is held.
  absl::Time Next() const {
    return order_.empty() ? absl::InfiniteFuture() : order_.begin()->first;
  }

 private:
  std::map<Key, absl::Time> moment_of_;
  std::set<std::pair<absl::Time, Key>> order_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DEADLINES_H_

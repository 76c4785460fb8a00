// Deadlines by key.
//
// Used for leases, resume windows and progress leases: each is a time that is
// extended, dropped, or reached. Never reads a clock: each call takes the time,
// and Next() returns the earliest deadline.
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
  // Sets or moves the deadline of `key`.
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

  // Removes and returns every key whose deadline is at or before `now`, ordered
  // by deadline, then key, so that two runs of the same history agree.
  std::vector<Key> TakeDue(absl::Time now) {
    std::vector<Key> due;
    while (!order_.empty() && order_.begin()->first <= now) {
      due.push_back(order_.begin()->second);
      moment_of_.erase(order_.begin()->second);
      order_.erase(order_.begin());
    }
    return due;
  }

  // Every key, in key order.
  std::vector<Key> Keys() const {
    std::vector<Key> keys;
    for (const auto& [key, moment] : moment_of_) keys.push_back(key);
    return keys;
  }

  // The first time at which TakeDue could return something; InfiniteFuture
  // without deadlines.
  absl::Time Next() const {
    return order_.empty() ? absl::InfiniteFuture() : order_.begin()->first;
  }

 private:
  std::map<Key, absl::Time> moment_of_;
  std::set<std::pair<absl::Time, Key>> order_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DEADLINES_H_

// A set of the ranks that have done something, and whether it is complete.

#ifndef LOCKSTEP_SERVER_CORE_RANK_SET_H_
#define LOCKSTEP_SERVER_CORE_RANK_SET_H_

#include <vector>

namespace lockstep::core {

class RankSet {
 public:
  explicit RankSet(int size) : has_(size, false) {}

  // False if it was in already.
  bool Add(int rank) {
    if (has_[rank]) return false;
    has_[rank] = true;
    ++count_;
    return true;
  }
  bool Has(int rank) const { return has_[rank]; }
  int count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // The ranks not in the set, ascending.
  std::vector<int> Missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < static_cast<int>(has_.size()); ++rank) {
      if (!has_[rank]) ranks.push_back(rank);
    }
    return ranks;
  }
  bool full() const { return count_ == static_cast<int>(has_.size()); }

 private:
  std::vector<bool> has_;
  int count_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_RANK_SET_H_

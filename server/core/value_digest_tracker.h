// Whether the ranks of a job begin with the same values, as their digests say.
//
// A parameter's values are those of every rank that holds it: of its
// reduction's group, and of the groups along the axes that it is replicated
// over.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/words/protocol.h"
#include "server/core/rank_set.h"

namespace lockstep::core {

class ValueDigestTracker {
 public:
  explicit ValueDigestTracker(int world_size) : said_(world_size) {}

  // What a rank begins with; a second time changes nothing. False, and no
  // change: no such digests can be of this plan.
  bool Add(int rank, const protocol::ValueDigests& values,
           const plan::Plan& plan);

  // The rank has said it.
  bool Has(int rank) const { return said_.Has(rank); }
  // Differences were found that nobody has been told.
  bool has_news() const { return has_news_; }

  // The sentence to tell; empty if nothing differs.
  std::string Take();

 private:
  // Ranks that begin with the same.
  struct Group {
    uint64_t digest = 0;
    std::vector<int> ranks;
  };
  // A parameter with all its holders.
  struct Value {
    std::string name;
    std::vector<Group> groups;
    bool is_news = false;  // a group that differs has come
  };

  void FindHolders(const plan::Plan& plan);

  RankSet said_;
  std::vector<int> value_of_;  // by parameter of the plan
  std::vector<Value> values_;
  bool has_news_ = false;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_

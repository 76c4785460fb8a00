// Checks, by digests, that the ranks of a job begin with the same values.
//
// A parameter's values must agree on every rank that holds it: its reduction
// group, and the groups along the axes that it is replicated over.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "protocol/progress.h"
#include "server/core/rank_set.h"

namespace lockstep::core {

class ValueDigestTracker {
 public:
  explicit ValueDigestTracker(int world_size) : said_(world_size) {}

  // The digests of a rank's initial values; a repetition changes nothing.
  // False, with no change, if they cannot belong to this plan.
  bool Add(int rank, const protocol::ValueDigests& values,
           const plan::Plan& plan);

  // The rank has sent its digests.
  bool Has(int rank) const { return said_.Has(rank); }
  // A difference was found that is in no warning yet.
  bool has_news() const { return has_news_; }

  // The text of the warning; empty if nothing differs.
  std::string Take();

 private:
  // Ranks that begin with equal values.
  struct Group {
    uint64_t digest = 0;
    std::vector<int> ranks;
  };
  // A parameter with all its holders.
  struct Value {
    std::string name;
    std::vector<Group> groups;
    bool is_news = false;  // a differing group was added
  };

  void FindHolders(const plan::Plan& plan);

  RankSet said_;
  std::vector<int> value_of_;  // by parameter of the plan
  std::vector<Value> values_;
  bool has_news_ = false;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_VALUE_DIGEST_TRACKER_H_

// Which ranks of a group share a host, and how they pair up between hosts.
//
//   host 0    rank 0   rank 1   rank 4        a host's ranks, ascending: its
//   host 1    rank 2   rank 3                 indexes; hosts by lowest rank
//             line 0   line 1                 as many lines as the smallest
//                                             host has ranks
//
// The order of a reduction is the hosts', and on each its ranks': the ranks'
// own where hosts hold neighbours.
//
// A value; the same on all ranks.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_

#include <string>
#include <vector>

namespace lockstep::transport {

class Placement {
 public:
  // By rank, what tells its host from others.
  explicit Placement(const std::vector<std::string>& hosts);

  int ranks() const { return static_cast<int>(seats_.size()); }
  int hosts() const { return static_cast<int>(members_.size()); }
  int lines() const { return lines_; }  // the smallest host's ranks
  int most() const { return most_; }    // the largest one's

  int host(int rank) const { return seats_[rank].host; }
  int index(int rank) const { return seats_[rank].index; }
  const std::vector<int>& members(int host) const { return members_[host]; }

 private:
  struct SegmentAddress {
    int host;
    int index;
  };
  std::vector<SegmentAddress> seats_;      // by rank
  std::vector<std::vector<int>> members_;  // by host
  int lines_ = 0;
  int most_ = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_

// Which ranks of a group share a host, and the lines that connect the hosts: a
// line is one rank of each host.
//
//   host 0    rank 0   rank 1   rank 4     hosts by lowest rank; the index of a
//   host 1    rank 2   rank 3              rank counts the ranks of its host
//             line 0   line 1              as many lines as the smallest host
//                                          has ranks
//
// A reduction adds host by host, and in rank order on each host. If each host
// has neighbouring ranks, that is rank order.
//
// A value; identical on all ranks.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_

#include <string>
#include <vector>

namespace lockstep::transport {

class Placement {
 public:
  // `hosts`: by rank, a name that is unique to its host.
  explicit Placement(const std::vector<std::string>& hosts);

  int ranks() const { return static_cast<int>(hosts_of_.size()); }
  int hosts() const { return static_cast<int>(members_.size()); }
  int lines() const { return lines_; }  // the ranks of the smallest host
  int most() const { return most_; }    // the ranks of the largest host

  int host(int rank) const { return hosts_of_[rank].host; }
  int index(int rank) const { return hosts_of_[rank].index; }
  const std::vector<int>& members(int host) const { return members_[host]; }

 private:
  struct HostIndex {
    int host;
    int index;
  };
  std::vector<HostIndex> hosts_of_;        // by rank
  std::vector<std::vector<int>> members_;  // by host
  int lines_ = 0;
  int most_ = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_PLACEMENT_H_

// One pass of a job in negotiated mode: which rank announced and submitted
// which parameters.
//
//                 a           b         c
//   rank 0     submitted   awaited            announced a and b, submitted a
//   rank 1                                    has not announced
//   ready?                                    a is not: rank 1 may still
//                                             announce it
//
// Bookkeeping only: it answers which parameters are ready; its owner orders the
// decisions (negotiation.h).

#ifndef LOCKSTEP_SERVER_CORE_PASS_H_
#define LOCKSTEP_SERVER_CORE_PASS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/ir.h"

namespace lockstep::core {

// The ranks that reduce each parameter.
struct PassGroups {
  explicit PassGroups(const plan::Plan& plan);

  struct Group {
    std::vector<int> ranks;
    std::vector<uint32_t> parameters;
  };

  bool Has(int rank, uint32_t parameter) const {
    return is_member[of_parameter[parameter]][rank];
  }
  uint32_t parameters() const { return static_cast<uint32_t>(names.size()); }

  int world_size = 0;
  std::vector<Group> groups;
  std::vector<int> of_parameter;             // its group; -1: none
  std::vector<std::vector<bool>> is_member;  // by group and rank
  std::vector<std::vector<int>> of_rank;     // its groups
  std::vector<std::string> names;            // of the parameters
};

class Pass {
 public:
  Pass(std::shared_ptr<const PassGroups> groups, uint64_t number);

  uint64_t number() const { return number_; }

  // Records all parameters that the rank will submit in this pass. A repeated,
  // equal announcement changes nothing. Returns the parameters that may have
  // become ready. InvalidArgument: "announced w twice", "announced other
  // parameters the second time", an invalid index, a foreign parameter.
  absl::StatusOr<std::vector<uint32_t>> Announce(
      int rank, const std::vector<uint32_t>& parameters);

  // Records further announced parameters as submitted. InvalidArgument: a
  // parameter was not announced.
  absl::Status Submit(int rank, const std::vector<uint32_t>& parameters);

  // All ranks of its group have announced, at least one announced this
  // parameter, every rank that did has submitted it, and it is not decided.
  bool Ready(uint32_t parameter) const;
  uint32_t announcers(uint32_t parameter) const {
    return counts_[parameter].announcers;
  }
  void Decide(uint32_t parameter);
  // All ranks have announced, and every announced parameter is decided.
  bool Complete() const { return silent_ == 0 && undecided_ == 0; }

  bool HasAnnounced(int rank) const { return ranks_[rank].announced; }
  // The parameters that the rank announced and has not submitted: the number
  // and the first names.
  size_t Awaited(int rank) const { return ranks_[rank].awaited; }
  std::vector<std::string> AwaitedNames(int rank, size_t max) const;

  bool operator==(const Pass&) const = default;

 private:
  struct Rank {
    bool announced = false;
    size_t awaited = 0;
    std::vector<bool> gives;      // announced, by parameter; empty if none
    std::vector<bool> submitted;  // the same
    bool operator==(const Rank&) const = default;
  };
  struct Counts {
    uint32_t announcers = 0;
    uint32_t awaited = 0;  // announcers that have not submitted
    bool decided = false;
    bool operator==(const Counts&) const = default;
  };

  absl::Status CheckAnnounced(int rank,
                              const std::vector<uint32_t>& parameters) const;
  absl::Status CheckNamed(const char* did, uint32_t parameter) const;

  std::shared_ptr<const PassGroups> groups_;
  uint64_t number_;
  std::vector<Rank> ranks_;
  std::vector<Counts> counts_;        // by parameter
  std::vector<int> silent_of_group_;  // members that have not announced
  int silent_;                        // ranks that have not announced
  uint32_t undecided_ = 0;            // announced parameters
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PASS_H_

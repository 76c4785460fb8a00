// One pass of a job in negotiated mode: who announced and submitted what.
//
//                 a      b      c
//   rank 0     given   awaited         announced a and b, submitted a
//   rank 1                             has not announced
//   decided?                           a is not: rank 1 may yet announce it
//
// Pure bookkeeping: it says what is ready; the order of decisions is made by
// its owner (negotiation.h).

#ifndef LOCKSTEP_SERVER_CORE_PASS_H_
#define LOCKSTEP_SERVER_CORE_PASS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/ir.h"

namespace lockstep::core {

// Who reduces what.
struct Groups {
  explicit Groups(const plan::Plan& plan);

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
  std::vector<int> of_parameter;             // its group; -1: nobody's
  std::vector<std::vector<bool>> is_member;  // by group and rank
  std::vector<std::vector<int>> of_rank;     // its groups
  std::vector<std::string> names;            // of the parameters
};

class Pass {
 public:
  Pass(std::shared_ptr<const Groups> groups, uint64_t number);

  uint64_t number() const { return number_; }

  // What the rank will submit: all of it, once; to say the same again changes
  // nothing. Returns the parameters that may have become ready by it.
  // InvalidArgument: "announced w twice", "announced other parameters the
  // second time", an index that is none, a parameter of another group.
  absl::StatusOr<std::vector<uint32_t>> Announce(
      int rank, const std::vector<uint32_t>& parameters);

  // Further ones of the announced. InvalidArgument: not announced.
  absl::Status Submit(int rank, const std::vector<uint32_t>& parameters);

  // All of its group have announced, at least one of them it, all who did have
  // submitted, and it is not decided.
  bool Ready(uint32_t parameter) const;
  uint32_t announcers(uint32_t parameter) const {
    return counts_[parameter].announcers;
  }
  void Decide(uint32_t parameter);
  // All ranks have announced, and all that was announced is decided.
  bool Complete() const { return silent_ == 0 && undecided_ == 0; }

  bool HasAnnounced(int rank) const { return ranks_[rank].announced; }
  // What the rank announced and has not submitted: how much, and the first.
  size_t Awaited(int rank) const { return ranks_[rank].awaited; }
  std::vector<std::string> AwaitedNames(int rank, size_t max) const;

  bool operator==(const Pass&) const = default;

 private:
  struct Rank {
    bool announced = false;
    size_t awaited = 0;
    std::vector<bool> gives;      // by parameter; empty if none
    std::vector<bool> submitted;  // the same
    bool operator==(const Rank&) const = default;
  };
  struct Counts {
    uint32_t announcers = 0;
    uint32_t awaited = 0;  // of these
    bool decided = false;
    bool operator==(const Counts&) const = default;
  };

  absl::Status CheckAnnounced(int rank,
                              const std::vector<uint32_t>& parameters) const;
  absl::Status CheckNamed(const char* did, uint32_t parameter) const;

  std::shared_ptr<const Groups> groups_;
  uint64_t number_;
  std::vector<Rank> ranks_;
  std::vector<Counts> counts_;        // by parameter
  std::vector<int> silent_of_group_;  // members that have not announced
  int silent_;                        // ranks that have not
  uint32_t undecided_ = 0;            // announced parameters
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PASS_H_

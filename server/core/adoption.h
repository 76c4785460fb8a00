// Running jobs that this coordinator does not know, offered by their workers.
//
//   a coordinator starts without the journal of the former one
//   Hello(generation, ResumeState) ──▶ an offer; its stream ends as
//                                      UNAVAILABLE: the worker keeps training
//                                      and offers again
//   ... from every rank, all equal ──▶ record::JobAdopted; all may resume
//
// The offers of one epoch agree in epoch, members (by number and digest), spec
// and token. An offer expires after the job's lease. Until it does, an offer of
// the same rank by another incarnation is refused.
//
// Costs O(log n) for each offer, O(n) for the one that completes the epoch.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_ADOPTION_H_
#define LOCKSTEP_SERVER_CORE_ADOPTION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/record.h"
#include "protocol/session.h"
#include "protocol/types.h"

namespace lockstep::core {

// The worker was welcomed and is part of an epoch.
inline bool IsInEpoch(const protocol::Hello& hello) {
  return hello.generation.value != 0 && hello.resume &&
         hello.resume->epoch.value != 0;
}

class Adoptions {
 public:
  struct Taken {
    // Set if this offer completes the epoch. The job's offers are then dropped.
    std::optional<record::JobAdopted> adopted;
    bool is_new = false;  // no offer of the rank was held before
    // How long the worker has been waiting to leave.
    absl::Duration leaving_for = absl::ZeroDuration();
  };

  // Adds the offer of a Hello with a generation that is in an epoch.
  // FailedPrecondition: not a valid offer (no spec, rank out of range, another
  // incarnation holds the rank).
  absl::StatusOr<Taken> Take(absl::Time now, const JobName& job,
                             const protocol::Hello& hello);

  // Drops the offer of a worker that was allowed to leave.
  void Drop(const JobName& job, const protocol::Hello& hello);

  // Whether another worker has offered this epoch of the job.
  bool Has(const JobName& job, const protocol::Hello& hello) const;
  // How many different epochs are offered, of all jobs.
  size_t CountEpochs(absl::Time now);

  // "2 of 3 workers of its epoch 4 offer it for adoption"; empty without a
  // current offer.
  std::string Describe(const JobName& job, absl::Time now) const;

 private:
  struct Offer {
    protocol::Member member;
    uint64_t incarnation = 0;
    std::string secret_hash;
    Revision revision;
    std::string plan_digest;
    std::vector<uint32_t> observed_order;
    protocol::DesiredCommands wanted;
    absl::Time holds_until;
    absl::Time leaving_since = absl::InfiniteFuture();
  };
  // Offers that agree.
  struct Group {
    EpochId epoch;
    std::string members_digest;
    JobSpec spec;
    int world = 0;  // its members: fewer than the mesh's, if it is elastic
    std::string token_hash;
    std::map<int, Offer> by_rank;
  };

  static int WorldOf(const protocol::Hello& hello);
  static bool Agrees(const Group& group, const protocol::Hello& hello);
  Group& GroupOf(const JobName& job, const protocol::Hello& hello);
  void DropStale(absl::Time now);
  static std::optional<record::JobAdopted> Complete(const Group& group,
                                                    absl::Time now);

  std::map<JobName, std::vector<Group>> jobs_;
  absl::Time drop_stale_at_ = absl::InfinitePast();  // bounds its cost
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ADOPTION_H_

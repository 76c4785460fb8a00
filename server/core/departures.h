// The ranks that have left an epoch cleanly, and whether another rank misses
// them; the data connections that members report as broken.
//
// Ranks pass the last verdict at slightly different times, so a leaver may be
// ahead of the other ranks' reports. It is missed only when a remaining rank
// needs it: that rank has begun to register although the leaver never will, or
// has submitted the gradients of a step that the leaver did not train, or a
// transfer with the leaver has failed. A withdrawn rank counts as a leaver.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_DEPARTURES_H_
#define LOCKSTEP_SERVER_CORE_DEPARTURES_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/time/time.h"
#include "protocol/evidence.h"
#include "protocol/types.h"
#include "server/core/epoch_context.h"
#include "server/core/evidence.h"
#include "server/core/members.h"
#include "server/core/progress_tracker.h"
#include "server/core/rank_set.h"
#include "server/core/registry.h"

namespace lockstep::core {

class Departures {
 public:
  explicit Departures(int world_size) : left_(world_size) {}

  // --- Leaving ---

  // The rank has left cleanly after these steps.
  void Leave(int rank, uint64_t steps, const Members& members);
  // The rank takes part in no step after these.
  void Stop(int rank, uint64_t steps);

  bool HasLeft(int rank) const { return left_.Has(rank); }
  int count() const { return left_.count(); }
  bool all_left() const { return left_.full(); }

  // A rank that misses a leaver. `registry`: before the start, else nullptr.
  std::optional<int> MissedBy(const Members& members,
                              const ProgressTracker& progress,
                              const Registry* registry) const;
  // A rank beyond the last step of a leaver.
  std::optional<int> GoesOn(const Members& members,
                            const ProgressTracker& progress) const;
  // As far as it has reported, the rank is in the last step of a leaver, or has
  // passed it.
  bool IsInLastStep(int rank, const ProgressTracker& progress) const;
  // The rank is where the last step of a leaver ended: the step that it is in
  // cannot end.
  bool IsMissedAt(int rank, const ProgressTracker& progress) const;

  // The leaver that stopped first, and after how many steps. Some rank must
  // have stopped.
  int first_leaver() const { return first_leaver_; }
  uint64_t left_at() const { return left_at_; }

  // --- Broken connections ---

  // A member reports that another member resets or is silent on their data
  // connection. False, with no change, if either is no member.
  bool Accuse(const protocol::Evidence& evidence, const WorkerName& reporter,
              EpochContext& context);
  bool has_accusations() const { return !accusations_.open().empty(); }
  absl::Time NextExpiry() const { return accusations_.Next(); }
  void BeginAnew(absl::Time answer_by) { accusations_.BeginAnew(answer_by); }
  // Ends the epoch if an accused member lives and has not resumed the
  // connection. `may_resume`: a worker without a stream may still resume.
  std::optional<EpochEnd> Expire(bool may_resume, EpochContext& context);

 private:
  bool AwaitsAnAccused(const EpochContext& context) const;
  protocol::Position LastPosition() const;

  RankSet left_;
  // Among the ranks in `left_` and the withdrawn ranks: the one that stopped
  // after the fewest steps, and that number of steps.
  int first_leaver_ = -1;
  uint64_t left_at_ = std::numeric_limits<uint64_t>::max();
  Accusations accusations_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_DEPARTURES_H_

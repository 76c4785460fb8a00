// The position of each rank of an epoch, and since when.
//
//   moved ───────────────── moved + timeouts.progress ──▶ stuck
//     └─ Busy(reason, max) ────────────┘ not before moved + max
//     └─ paused by an operator ────────┘ never
//
// A rank has *moved* when its position changed or it did what its epoch
// required (registered, connected, announced or submitted in a pass, ...). This
// class knows times only; whether a stuck rank waits for another one is decided
// in waits.h.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/progress.h"
#include "protocol/types.h"
#include "server/core/deadlines.h"

namespace lockstep::core {

struct RankProgress {
  protocol::Position position;
  uint32_t submitted = 0;
  std::vector<std::string> missing;             // as in Progress
  std::string task;                             // likewise
  int awaits = -1;                              // likewise
  bool withdrawn = false;                       // likewise
  std::vector<protocol::GroupProgress> groups;  // likewise
  double step_seconds = 0;
  double exposed_seconds = 0;  // exposed communication, in the same steps
  Overlap overlap = Overlap::kAuto;
  std::string memory;  // as in Progress
  Revision revision;   // run by its steps
  absl::Time moved;
  absl::Time told;   // when the position was last reported
  std::string busy;  // the reported reason for not moving
  absl::Time busy_until = absl::InfinitePast();
  bool paused = false;  // between steps, by an operator's command
  bool present = true;
  bool reported = false;
  bool called_stuck = false;  // and has not moved since
};

class ProgressTracker {
 public:
  // All ranks begin at `first_step`.
  ProgressTracker(int world_size, absl::Duration patience, absl::Time now,
                  uint64_t first_step = 0);

  // The newest report of a rank. True if it was called stuck and has moved.
  bool Update(int rank, const protocol::Progress& progress, absl::Time now);
  // The rank did what the epoch required. True as above.
  bool Touch(int rank, absl::Time now);
  void SetBusy(int rank, const protocol::Busy& busy, absl::Time now);
  // The rank left: it is not expected to move any more.
  void Drop(int rank);
  // Steps begin: moves every rank to its first position.
  void Begin(absl::Time now);
  // Restarts the progress deadline of every rank.
  void BeginAnew(absl::Time now);

  const RankProgress& of(int rank) const { return standings_[rank]; }
  int size() const { return static_cast<int>(standings_.size()); }

  // At least one rank is present, and every present rank is paused.
  bool all_paused() const { return paused_ > 0 && paused_ == present_; }

  // The rank has not moved within its deadline and is neither busy nor paused.
  bool IsStuck(int rank, absl::Time now) const;
  void CallStuck(int rank) { standings_[rank].called_stuck = true; }

  // Ranks whose deadline passed; each is due again one full period later.
  std::vector<int> TakeDue(absl::Time now);
  absl::Time NextDue() const { return due_.Next(); }

  // When a rank reported a step beyond all that were reported before: a short
  // time earlier every rank had entered the verdict of the step before it, and
  // so lived. A rank's first report does not count, as it may be old (after a
  // restart of the coordinator). InfinitePast: not known.
  absl::Time advanced() const { return advanced_; }

  // The furthest position of the ranks that are present.
  protocol::Position Furthest() const;

 private:
  bool Moved(int rank, absl::Time now);
  void Count(const protocol::Position& position, int sign);
  void SetPaused(RankProgress& standing, bool paused);

  const absl::Duration patience_;
  std::vector<RankProgress> standings_;
  std::map<protocol::Position, int> positions_;  // number of ranks at each
  int present_;
  int paused_ = 0;  // of those
  Deadlines<int> due_;
  uint64_t highest_step_;
  absl::Time advanced_ = absl::InfinitePast();
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_

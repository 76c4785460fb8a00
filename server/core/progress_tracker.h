// Where each rank of an epoch is, and since when.
//
//   moved ───────────────── moved + timeouts.progress ──▶ stuck
//     └─ Busy(reason, max) ────────────┘ not before moved + max
//     └─ paused by an operator ────────┘ never
//
// A rank has *moved* when its position changed or it did what its epoch asked
// of it (registered, connected, announced or submitted in a pass, ...). The
// board knows times; whether a rank that does not move waits for another is
// said by waits.h.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "plan/words/protocol.h"
#include "server/core/deadlines.h"

namespace lockstep::core {

struct Standing {
  protocol::Position position;
  uint32_t submitted = 0;
  std::vector<std::string> missing;  // as in Progress
  std::string task;                  // likewise
  int awaits = -1;                   // likewise
  bool withdrawn = false;            // likewise
  double step_seconds = 0;
  double exposed_seconds = 0;  // of the same steps
  Overlap overlap = Overlap::kAuto;
  std::string memory;  // as in Progress
  Revision revision;   // that its steps run
  absl::Time moved;
  absl::Time told;   // when the position was last said
  std::string busy;  // why it does not move, if it said so
  absl::Time busy_until = absl::InfinitePast();
  bool paused = false;  // between steps, by an operator's command
  bool present = true;
  bool called_stuck = false;  // and it has not moved since
};

class ProgressTracker {
 public:
  // All ranks begin at `first_step`.
  ProgressTracker(int world_size, absl::Duration patience, absl::Time now,
                  uint64_t first_step = 0);

  // The newest word of a rank. True if it was called stuck and has moved.
  bool Update(int rank, const protocol::Progress& progress, absl::Time now);
  // It did what the epoch asked of it. True as above.
  bool Touch(int rank, absl::Time now);
  void SetBusy(int rank, const protocol::Busy& busy, absl::Time now);
  // It left: nothing is expected of it any more.
  void Drop(int rank);
  // All stand where they began: steps are about to.
  void Begin(absl::Time now);
  // All patience begins anew.
  void BeginAnew(absl::Time now);

  const Standing& of(int rank) const { return standings_[rank]; }
  int size() const { return static_cast<int>(standings_.size()); }

  // Every rank that is present is paused, and there are some.
  bool all_paused() const { return paused_ > 0 && paused_ == present_; }

  // Not moved for as long as it may, and neither busy nor paused.
  bool IsStuck(int rank, absl::Time now) const;
  void CallStuck(int rank) { standings_[rank].called_stuck = true; }

  // Ranks whose patience ended; each is due again a full patience later.
  std::vector<int> TakeDue(absl::Time now);
  absl::Time NextDue() const { return due_.Next(); }

  // The furthest position of the ranks that are present.
  protocol::Position Furthest() const;

 private:
  bool Moved(int rank, absl::Time now);
  void Count(const protocol::Position& position, int sign);
  void SetPaused(Standing& standing, bool paused);

  const absl::Duration patience_;
  std::vector<Standing> standings_;
  std::map<protocol::Position, int> positions_;  // how many stand there
  int present_;
  int paused_ = 0;  // of those
  Deadlines<int> due_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PROGRESS_TRACKER_H_

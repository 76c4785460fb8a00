// Checkpoints of an epoch: what each rank has reported, and what follows.
//
//   directory (rank 0) ──▶ news to all ranks
//   access of all      ──▶ opened, with the ranks that cannot read it; after
//                          such an opening, once all ranks begin another one,
//                          again from the directory on
//   save k: all wrote  ──▶ record SavePrepared ──▶ `prepared` to a member
//           committed  ──▶ record SaveCommitted ─▶ decided, to all
//           a failure  ──▶ decided with faults, when no rank writes any more
//
// A save is decided when no rank is writing or has yet to begin it. It fails if
// a rank failed, left without saving, or saved another step, or if three
// members could not write the manifest. The member is the lowest rank with a
// stream; it stays the member until it fails or leaves.
//
// Everything but the two records follows from the newest reports, which ranks
// repeat on each new stream: a coordinator that restarted, or adopted the job,
// goes on when they have. A rank that had left then counts as in the journal:
// it has written what was prepared.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_CHECKPOINT_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_CHECKPOINT_TRACKER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/checkpoint.h"
#include "protocol/job_view.h"
#include "server/core/checkpoint_history.h"
#include "server/core/epoch_context.h"

namespace lockstep::core {

class CheckpointTracker {
 public:
  // For the newest epoch of `durable`. Both must outlive it.
  CheckpointTracker(const DurableJob& durable, CheckpointHistory& history);

  // A report that differs from the rank's last one is progress of the rank.
  std::optional<EpochEnd> On(int rank, const protocol::CheckpointReport& report,
                             EpochContext& context);
  // The rank has left cleanly. After a restart, without a context.
  void Leave(int rank, EpochContext& context);
  void RestoreLeft(int rank) { ranks_[rank].left = true; }
  // The rank has a new stream.
  void Resume(int rank, EpochContext& context);

  // --- Waiting ---

  // The rank has done its part, and waits (if it waits) until others have.
  bool Awaits(int rank) const;
  // The ranks whose part is missing while others wait for it, ascending.
  std::vector<int> Awaited() const;
  // The rank's part that is missing: "has not written its part of the
  // checkpoint of step 20".
  std::string Lack(int rank) const;
  bool IsWriting(int rank) const;

  // Fills in the save in progress.
  void Describe(absl::Time now, CheckpointView* view) const;

 private:
  using Save = protocol::CheckpointSave;
  using Fault = protocol::CheckpointFault;

  struct RankState {
    std::optional<protocol::CheckpointReport> report;
    bool left = false;
  };
  // The save that is decided next, over all ranks.
  struct SaveTotals {
    int begun = 0;     // ranks that have
    int missing = 0;   // ranks that are here, and write or have yet to begin
    int64_t step = 0;  // of the lowest rank that has begun
    int first = -1;    // that rank
    uint64_t bytes_done = 0;
    uint64_t bytes_total = 0;
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  uint64_t next() const { return outcome_.decided + 1; }
  // The rank's save number next(), if it has begun it.
  const Save* Find(int rank) const;
  bool IsMissing(int rank) const;
  SaveTotals Count() const;
  // The journal has the parts of save next().
  bool IsPrepared() const;

  void Advance(EpochContext& context);
  // Rank 0's directory is the one that is opened.
  void Adopt();
  // The rank's report has its result with the directory that is opened.
  bool HasTried(int rank) const;
  // The directory was opened, and the rank has begun to open another one.
  bool OpensAgain(int rank) const;
  void OpenAgain();
  void Open();
  void Decide(EpochContext& context);
  std::vector<Fault> Faults(const SaveTotals& totals) const;
  void Prepare(const SaveTotals& totals, EpochContext& context);
  // A member for the manifest, or -1: none has a stream. False: none is left.
  bool ChooseMember(const EpochContext& context);
  std::vector<Fault> FailedMembers() const;
  void Commit(const SaveTotals& totals, EpochContext& context);
  void Fail(const SaveTotals& totals, std::vector<Fault> faults,
            EpochContext& context);
  CheckpointName NameOf(const SaveTotals& totals) const;
  void Tell(EpochContext& context);
  void Tell(int rank, EpochContext& context) const;

  const DurableJob& durable_;
  CheckpointHistory& history_;
  std::vector<RankState> ranks_;
  // What all ranks are told; `prepared` is of member_ only.
  protocol::CheckpointNews outcome_;
  int opening_again_ = 0;          // ranks
  int member_ = -1;                // writes the manifest
  protocol::CheckpointNews told_;  // to all ranks with a stream
  int told_member_ = -1;
  uint64_t began_ = 0;  // the newest save that a rank has begun
  absl::Time began_at_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_CHECKPOINT_TRACKER_H_

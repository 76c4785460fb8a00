// A rank's view of its group: all seats, and how one waits for the others.
//
//   mine  ── words grow ──▶ Ring()     wakes whoever sleeps
//   theirs ◀── looked at, again and again: spin, yield, then sleep on the bell
//
// A bell is rung only for who sleeps: sleepers is raised before the last look,
// and looked at after a word has grown, so that one of the two is seen.
//
// Who waits for many is woken once, by the last of them: of those whose words
// have grown, the last in the one order of all these writes sees all others'.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_GROUP_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/rendezvous.h"
#include "client/transport/shm/segment_sharing.h"
#include "client/transport/shm/wait_policy.h"

namespace lockstep::transport {

// Who the ranks of a board are. Where a board is all of a group, its rank only.
struct ShmGroupMembers {
  int rank = 0;  // this rank's, on the board
  // By rank on the board, their ranks in the group of which they are a part,
  // and its size.
  std::vector<int> in_group = {};
  int group_size = 0;
};

class ShmGroup {
 public:
  // `peers` by rank, as they met.
  ShmGroup(const ShmGroupMembers& roster, std::vector<Peer> peers,
           std::shared_ptr<SegmentRegistry> registry,
           const WaitPolicy& wait_policy);

  // Lets go what was borrowed, and sees to it that nobody who may still live
  // can write to memory of this rank: see SegmentExporter. If all that was
  // begun has ended well, nobody does.
  ~ShmGroup();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const WaitPolicy& wait_policy() const { return wait_policy_; }
  RankMask others() const { return others_; }

  const ControlBlock& mine() const { return peers_[rank_].seat; }
  const ControlBlock& seat(int rank) const { return peers_[rank].seat; }

  SegmentExporter& exporter() { return exporter_; }
  SegmentImporter& importer(int peer) { return *importers_[peer]; }

  // --- Waiting ---

  // After a word of this rank has grown.
  void Wake();
  void Wake(int rank);
  // The same, where each waits for the words of all `ranks` but perhaps its
  // own: not yet, if there are some that have not grown beyond what this rank's
  // word was.
  void WakeIfLast(RankMask ranks, absl::FunctionRef<bool(int)> has_grown);

  // Which of the others have left, or have been seen dead.
  RankMask Gone() const;
  // Looks which of `ranks` have died, by proof.
  void LookForDead(RankMask ranks);
  // Whether the process of `peer` is stopped; why that ends a wait for it.
  bool IsStopped(int peer) const;
  absl::Status WhySilent(int peer) const;
  // Why a wait for `peer`, which is gone, is in vain. Blames a rank of the
  // board, or an outsider.
  absl::Status WhyGone(int peer) const;

  // Tells all that this rank is gone, because of another, of itself or of an
  // outsider.
  void Leave(int because);

  // A rank of the group that is not on this board, as a number that no rank of
  // the board has; and back, of any: its rank in the group. -1 for a number
  // that is nobody's.
  int Outsider(int group_rank) const { return size() + group_rank; }
  int InGroup(int number) const;

  // An operation has ended before its end.
  void Failed() { failed_.store(true, std::memory_order_relaxed); }

  bool left() const { return left_.load(std::memory_order_relaxed); }

  // --- Whether to yield (patience.h) ---
  bool MayYield() const {
    return backoff_.load(std::memory_order_relaxed) <= 0;
  }
  void NoteLostCore() { backoff_ = wait_policy_.backoff_waits; }
  void NoteWait() {
    if (!MayYield()) --backoff_;
  }

  // --- Which collectives are under way ---

  // Whether all ranks have finished collective `number`; if not, adds to
  // `waits` who has not.
  bool AllFinished(uint64_t number, RankMask* waits);
  // This rank has.
  void Finish(uint64_t number);

  // --- Blocks of messages ---
  std::optional<uint32_t> TakeBlock();
  void GiveBlock(uint32_t block);

 private:
  void LetGo();
  RankMask Unproven(RankMask importers);

  const ShmGroupMembers roster_;
  const int rank_;
  std::vector<Peer> peers_;
  const RankMask others_;
  const WaitPolicy wait_policy_;
  SegmentExporter exporter_;
  std::vector<std::unique_ptr<SegmentImporter>> importers_;

  std::atomic<bool> left_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> backoff_{0};  // waits left without a yield
  std::atomic<RankMask> dead_{0};
  std::atomic<uint64_t> finished_by_all_{0};

  Mutex mutex_;
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;  // all up to here
  std::set<uint64_t> finished_early_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_GROUP_H_

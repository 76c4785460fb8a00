// A rank's view of its group: all control blocks, and the futex on which each
// rank waits for the others.
//
//   mine    ── a word grows ──▶ Wake()   wakes the ranks that sleep
//   peers'  ◀── polled: spin, yield, then sleep on the own `wakes`
//
// Wake skips ranks without sleepers. A waiter increments `sleepers` before its
// last poll, and Wake reads it after the word has grown, so no wake is lost.
//
// The last peer to advance wakes a rank that waits for many; earlier peers skip
// the futex call. All these stores have one total order, so the last one sees
// the others.
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
#include "client/transport/shm/core_sharing.h"
#include "client/transport/shm/rendezvous.h"
#include "client/transport/shm/segment_sharing.h"
#include "client/transport/shm/wait_policy.h"

namespace lockstep::transport {

// The members of an ShmGroup. If it is all of a communicator group, only `rank`
// is set.
struct ShmGroupMembers {
  int rank = 0;  // this rank, within the ShmGroup
  // By rank in the ShmGroup: the rank in the larger group, and its size.
  std::vector<int> in_group = {};
  int group_size = 0;
};

class ShmGroup {
 public:
  // `peers` by rank, from Rendezvous::ConnectAll.
  ShmGroup(const ShmGroupMembers& roster, std::vector<Peer> peers,
           std::shared_ptr<SegmentRegistry> registry,
           const WaitPolicy& wait_policy);

  // Unmaps the segments of all peers. After a failed operation it also ensures
  // that no peer that may still live can write to memory of this rank (see
  // SegmentExporter::TakeBack). After success no peer does.
  ~ShmGroup();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const WaitPolicy& wait_policy() const { return wait_policy_; }
  RankMask others() const { return others_; }

  const ControlBlock& mine() const { return peers_[rank_].control_block; }
  const ControlBlock& control_block(int rank) const {
    return peers_[rank].control_block;
  }

  SegmentExporter& exporter() { return exporter_; }
  SegmentImporter& importer(int peer) { return *importers_[peer]; }

  // --- Waiting ---

  // Called after a word of this rank has grown.
  void Wake();
  void Wake(int rank);
  // The same if each waiter needs the words of all `ranks`, except perhaps its
  // own. `has_grown(r)`: the word of r is beyond the previous one of this rank.
  // If one rank is behind, wakes only that rank; if several are, none.
  void WakeIfLast(RankMask ranks, absl::FunctionRef<bool(int)> has_grown);

  // The peers that have left or are known dead.
  RankMask Gone() const;
  // Polls the pidfds of `ranks`, and records those whose process has ended.
  void LookForDead(RankMask ranks);
  // Whether the process of `peer` is stopped; the error for a wait on it.
  bool IsStopped(int peer) const;
  absl::Status WhySilent(int peer) const;
  // The error for a wait on `peer`, which is gone. The failed peer is a member
  // or an outsider.
  absl::Status WhyGone(int peer) const;

  // Publishes that this rank leaves, and wakes all. `because`: the peer that
  // failed, this rank itself, or an outsider.
  void Leave(int because);

  // An outsider is a rank of the larger group that is not a member here.
  // Outsider() encodes it as a number beyond all members; InGroup() maps a
  // member or an outsider to its rank in the larger group, any other number to
  // -1.
  int Outsider(int group_rank) const { return size() + group_rank; }
  int InGroup(int number) const;

  // An operation has ended with an error.
  void Failed() { failed_.store(true, std::memory_order_relaxed); }

  bool left() const { return left_.load(std::memory_order_relaxed); }

  // --- Whether to yield (wait_policy.h) ---
  bool MayYield() const {
    return backoff_.load(std::memory_order_relaxed) <= 0;
  }
  void NoteLostCore() { backoff_ = wait_policy_.backoff_waits; }
  void NoteWait() {
    if (!MayYield()) --backoff_;
  }

  CoreSharing& core_sharing() { return core_sharing_; }

  // --- Which collectives are in flight ---

  // Whether all ranks have finished collective `number`. If not, adds the
  // unfinished ranks to `waits`.
  bool AllFinished(uint64_t number, RankMask* waits);
  // This rank has finished collective `number`.
  void Finish(uint64_t number);

  // --- The pool of message blocks ---
  std::optional<uint32_t> TakeBlock();
  void GiveBlock(uint32_t block);

 private:
  void Release();
  RankMask Unproven(RankMask importers);

  const ShmGroupMembers roster_;
  const int rank_;
  std::vector<Peer> peers_;
  const RankMask others_;
  const WaitPolicy wait_policy_;
  CoreSharing core_sharing_;
  SegmentExporter exporter_;
  std::vector<std::unique_ptr<SegmentImporter>> importers_;

  std::atomic<bool> left_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> backoff_{0};  // remaining waits that do not yield
  std::atomic<RankMask> dead_{0};
  std::atomic<uint64_t> finished_by_all_{0};

  Mutex mutex_;
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;  // all up to this number
  std::set<uint64_t> finished_early_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_GROUP_H_

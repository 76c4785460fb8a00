// The base of all collectives. A rank arrives, checks that all ranks run the
// same operation, does its part, and leaves when no peer uses its memory.
//
//   arrive ──▶ agree ──▶ ... part ... ──▶ leave
//     │          │                          └ a kDirect rank waits until all
//     │          │                            peers have published `read`
//     │          └ all slots announce the same call, or DataLoss
//     └ the slot is free: all ranks have finished the collective
//       kCollectiveSlots before
//
// Chunks of private buffers pass through the stages, kDepth in flight:
//
//   put c ──▶ (reduce c) ──▶ take c ──▶ its buffer is free for put c + kDepth

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_COLLECTIVE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_COLLECTIVE_H_

#include <cstdint>
#include <vector>

#include "client/transport/shm/task.h"

namespace lockstep::transport {

class Collective : public CollectiveTask {
 public:
  Collective(const CollectiveOp& call, ShmGroup& shm_group)
      : call_(call),
        shm_group_(shm_group),
        number_(call.tag >> 24),
        mine_(shm_group.mine().slot(number_)) {}

  absl::StatusOr<AdvanceResult> Advance() final;

 protected:
  // Sets the copy mode and the addresses, and copies a small payload to the
  // slot.
  virtual void Prepare(PublishedCall& published) = 0;
  // Called once, when all ranks have arrived and agree.
  virtual absl::Status AllArrived() = 0;
  // One step of this rank's part; kDone after the last.
  virtual absl::StatusOr<AdvanceResult> Part() = 0;

  const CollectiveOp& call() const { return call_; }
  ShmGroup& shm_group() const { return shm_group_; }
  int rank() const { return shm_group_.rank(); }
  int size() const { return shm_group_.size(); }
  uint64_t number() const { return number_; }
  CollectiveSlot& mine() const { return mine_; }
  CollectiveSlot& slot(int rank) const {
    return shm_group_.control_block(rank).slot(number_);
  }
  CopyMode copy_mode(int rank) const { return slot(rank).published.copy_mode; }

  // The staging buffer of `rank` for chunk `c`.
  std::byte* stage(int rank, uint64_t c) const {
    return shm_group_.control_block(rank).stage(number_, c);
  }
  // Whether this rank may put chunk `c`: all peers have taken the chunk that
  // occupied its buffer.
  bool MayPut(uint64_t c);
  // Whether `word` of all `ranks` has reached `chunks`.
  bool AllHave(SharedWord CollectiveSlot::*word, RankMask ranks,
               uint64_t chunks);
  // Advances this rank's `word` to `chunks`. A rank that waits for it waits for
  // the words of all of `with`, too.
  void Publish(SharedWord CollectiveSlot::*word, uint64_t chunks,
               RankMask with = 0);

 private:
  enum class State { kArriving, kWaiting, kRunning, kLeaving };

  void Arrive();
  absl::Status Agree();
  void FetchNext() const;

  const CollectiveOp& call_;
  ShmGroup& shm_group_;
  const uint64_t number_;
  CollectiveSlot& mine_;
  State state_ = State::kArriving;
  bool exported_ = false;  // a kDirect peer waits until all have read
};

// --- Pointers into typed memory ---

inline const std::byte* Plus(const void* data, size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
inline std::byte* Plus(void* data, size_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_COLLECTIVE_H_

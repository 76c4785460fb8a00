// What all collectives have in common: the ranks come, agree on what they are
// doing, do their part, and leave when nobody reads their memory any more.
//
//   come ──▶ meet ──▶ ... part ... ──▶ leave
//    │         │                         └ who lends memory waits until all
//    │         │                           have read
//    │         └ all cells say the same, or DataLoss
//    └ the cell is free: all have finished the collective kCollectiveSlots
//    before
//
// Chunks of private buffers pass through the stages, kDepth under way:
//
//   put c ──▶ (fold c) ──▶ take c ──▶ its place is free for put c + kDepth

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_COLLECTIVE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_COLLECTIVE_H_

#include <cstdint>
#include <vector>

#include "client/transport/shm/task.h"

namespace lockstep::transport {

class Collective : public Task {
 public:
  Collective(const CollectiveOp& call, ShmGroup& shm_group)
      : call_(call),
        shm_group_(shm_group),
        number_(call.tag >> 24),
        mine_(shm_group.mine().cell(number_)) {}

  absl::StatusOr<Progress> Advance() final;

 protected:
  // Fills in how this rank's bytes get to the others, and those that are small.
  virtual void Prepare(PublishedCall& published) = 0;
  // All have come.
  virtual absl::Status AllArrived() = 0;
  // This rank's part, a step of it; kDone at its end.
  virtual absl::StatusOr<Progress> Part() = 0;

  const CollectiveOp& call() const { return call_; }
  ShmGroup& shm_group() const { return shm_group_; }
  int rank() const { return shm_group_.rank(); }
  int size() const { return shm_group_.size(); }
  uint64_t number() const { return number_; }
  CollectiveSlot& mine() const { return mine_; }
  CollectiveSlot& cell(int rank) const {
    return shm_group_.seat(rank).cell(number_);
  }
  CopyMode copy_mode(int rank) const { return cell(rank).published.copy_mode; }

  // The stage, for chunk `c` of this rank's and of others'.
  std::byte* stage(int rank, uint64_t c) const {
    return shm_group_.seat(rank).stage(number_, c);
  }
  // Whether this rank may put chunk `c`: all have taken what was there.
  bool MayPut(uint64_t c);
  // Whether `word` of all `ranks` has reached `chunks`.
  bool AllHave(SharedWord CollectiveSlot::*word, RankMask ranks,
               uint64_t chunks);
  // This rank's `word` reaches `chunks`. Who waits for it waits for those of
  // all of `with`, too.
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
  bool exported_ = false;  // somebody waits until all have read
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

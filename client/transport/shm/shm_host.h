// What a process has of shared memory beside its groups: its arenas, and what
// it knows of waiting on this machine. And how a group's members on one host
// get from a meeting to a board.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HOST_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HOST_H_

#include <chrono>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "client/transport/shm/rendezvous.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_group.h"
#include "client/transport/shm/wait_policy.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

class ShmHost {
 public:
  // `silence`: how long a peer that is waited for may be stopped.
  explicit ShmHost(absl::Duration silence) : silence_(silence) {}

  // The seats of a group of `size`.
  static ControlBlock::Shape ShapeOf(int size, Traffic traffic);

  // For who has met `peers`.
  std::unique_ptr<ShmGroup> MakeGroup(const ShmGroupMembers& roster,
                                      std::vector<Peer> peers) const;

  std::unique_ptr<Arena> MakeArena() const {
    return MakeSharedArena(registry_);
  }

  // Before every group: whether its memory is this process's alone, see
  // SegmentRegistry::Sound.
  absl::Status Sound() const { return registry_->Sound(); }

 private:
  std::shared_ptr<SegmentRegistry> registry_ =
      std::make_shared<SegmentRegistry>();
  std::chrono::nanoseconds cost_of_sleep_ = CostOfSleep();
  absl::Duration silence_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HOST_H_

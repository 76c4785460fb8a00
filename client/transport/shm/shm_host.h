// The shared-memory state of a process: the registry of its arena segments, and
// the measured cost of a sleep. It makes the ShmGroup of connected peers.
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
  // `silence`: how long a peer may be stopped before a wait for it fails.
  explicit ShmHost(absl::Duration silence) : silence_(silence) {}

  // The shape of the control blocks in a group of `size`.
  static ControlBlock::Shape ShapeOf(int size, TrafficClass traffic);

  // `peers` from Rendezvous::ConnectAll.
  std::unique_ptr<ShmGroup> MakeGroup(const ShmGroupMembers& roster,
                                      std::vector<Peer> peers) const;

  std::unique_ptr<Arena> MakeArena() const {
    return MakeSharedArena(registry_);
  }

  // Checked before every group: whether a lost peer may still write to the
  // arena, see SegmentRegistry::Sound.
  absl::Status Sound() const { return registry_->Sound(); }

 private:
  std::shared_ptr<SegmentRegistry> registry_ =
      std::make_shared<SegmentRegistry>();
  std::chrono::nanoseconds cost_of_sleep_ = CostOfSleep();
  absl::Duration silence_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HOST_H_

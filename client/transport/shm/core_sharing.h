// Which ranks wait for each other on one core.
//
// A rank that spins keeps a peer on the same core from running. The scheduler
// leaves them there for long: ranks that yield and sleep look like little load.
// So each rank publishes the core on which it waits. A rank that finds a peer
// that it waits for on its own core yields at once.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "client/transport/shm/control_block.h"

namespace lockstep::transport {

class CoreSharing {
 public:
  // `cores[r]`: the word in which rank r publishes its core.
  CoreSharing(int rank, std::vector<std::atomic<uint32_t>*> cores)
      : rank_(rank), cores_(std::move(cores)) {}

  // Publishes the core of the calling thread. Returns which of `ranks` waited
  // last on the same core.
  RankMask Publish(RankMask ranks);

 private:
  const int rank_;
  const std::vector<std::atomic<uint32_t>*> cores_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_

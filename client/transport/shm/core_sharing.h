// Ranks that wait for each other on one core, and how they come apart.
//
// A rank that spins keeps a peer on the same core from running. The scheduler
// leaves them there for long: ranks that yield and sleep look like little load.
// So each rank publishes the core on which it waits. A rank that finds a peer
// on its own core yields at once, and moves to another core if one is idle.
//
//   rank 0  core 3 ─┐
//   rank 1  core 3 ─┴─ the same: both yield; the higher rank moves
//
// To move, a thread excludes the cores of its group from its CPU affinity mask
// and then restores the mask. It moves only if no more threads are runnable
// than the machine has cores, and at most once in kPause.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "client/transport/shm/control_block.h"
#include "client/transport/shm/wait_policy.h"

namespace lockstep::transport {

// The number of runnable threads on this machine; a large number if it is not
// known.
int RunnableThreads();

class CoreSharing {
 public:
  using Clock = WaitPolicy::Clock;
  static constexpr std::chrono::microseconds kPause{1000};

  // `cores[r]`: the word in which rank r publishes its core.
  CoreSharing(int rank, std::vector<std::atomic<uint32_t>*> cores,
              std::function<int()> runnable = RunnableThreads)
      : rank_(rank), cores_(std::move(cores)), runnable_(std::move(runnable)) {}

  // Publishes the core of the calling thread. Returns which of `ranks` waited
  // last on the same core.
  RankMask Publish(RankMask ranks);

  // Moves the calling thread to another core, if it is this rank that must move
  // and a core seems to be idle. `sharing`: from Publish.
  void ComeApart(RankMask sharing, Clock::time_point now);

 private:
  bool TakeTurn(Clock::time_point now);
  void Move();

  const int rank_;
  const std::vector<std::atomic<uint32_t>*> cores_;
  const std::function<int()> runnable_;
  std::atomic<Clock::rep> not_before_{0};  // since Clock's epoch
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CORE_SHARING_H_

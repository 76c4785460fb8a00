// How long a rank looks before it sleeps, and how it sleeps.
//
// To look again at once is fastest while the peer runs on another core; when
// there are more ranks than cores it only keeps the peer from running. To sleep
// costs two switches and a wake, tens of microseconds on a virtual machine. So:
// look for as long as a sleep would cost, which is measured, giving the core
// away after the first moments; then sleep on the bell. With more ranks than
// cores, give it away from the beginning, and for longer.
//
//   looks ──▶ yields ──▶ sleeps, in short naps
//
// Yielding is right among ranks that share cores. To somebody else's program it
// gives the core for a whole turn of the scheduler, milliseconds, where a
// sleeper is woken at once. So who loses the core by a yield does not yield for
// a while.
//
// Naps are short because death makes no sound: after each the sleeper looks
// whether those it waits for still live.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_

#include <chrono>

namespace lockstep::transport {

struct WaitPolicy {
  using Clock = std::chrono::steady_clock;
  // Without giving the core away, and until the sleep.
  std::chrono::nanoseconds looks{2'000};
  std::chrono::nanoseconds all{50'000};
  std::chrono::nanoseconds nap{5'000'000};
  // A yield that takes so long went to a stranger; so many waits without.
  std::chrono::nanoseconds lost{500'000};
  int backoff_waits = 200;
  // How long a peer that is waited for may be stopped (stopped.h).
  std::chrono::nanoseconds silence{10'000'000'000};
};

// What a sleep and its wake cost here: measured, in some hundred microseconds.
std::chrono::nanoseconds CostOfSleep();

// For `ranks` on `cores`.
WaitPolicy WaitPolicyFor(int ranks, int cores, std::chrono::nanoseconds cost);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_

// How long a rank spins and yields before it sleeps.
//
// Spinning is fastest while the peer runs on another core. With more ranks than
// cores it keeps the peer from running. A sleep costs two context switches and
// a wake, tens of microseconds on a virtual machine. So a rank spins for as
// long as a sleep costs (measured), yields for as long again, then sleeps on
// its futex. With more ranks than cores it yields at once, and for longer. It
// also yields at once to a peer on its own core (core_sharing.h).
//
//   spin (`looks`) ──▶ yield (until `all`) ──▶ sleep, `nap` at a time
//
// Yielding helps if ranks share cores. A yield to another program loses the
// core for a scheduler time slice, milliseconds, where a sleeper is woken at
// once. So a rank that loses its core by a yield stops yielding for a while
// (backoff).
//
// A peer's death wakes no waiter, so after each nap a waiter polls whether its
// peers still live.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_

#include <chrono>

namespace lockstep::transport {

struct WaitPolicy {
  using Clock = std::chrono::steady_clock;
  // From the beginning of a wait: when spinning ends, and when sleeping begins.
  std::chrono::nanoseconds looks{2'000};
  std::chrono::nanoseconds all{50'000};
  std::chrono::nanoseconds nap{5'000'000};
  // A longer yield went to another program; then this many waits do not yield.
  std::chrono::nanoseconds lost{500'000};
  int backoff_waits = 200;
  // How long a peer may be stopped before a wait for it fails (stopped.h).
  std::chrono::nanoseconds silence{10'000'000'000};
};

// Measures the cost of a sleep and its wake on this machine, in two threads of
// its own. Takes some hundred microseconds.
std::chrono::nanoseconds CostOfSleep();

// The policy for `ranks` on `cores`. `cost`: CostOfSleep.
WaitPolicy WaitPolicyFor(int ranks, int cores, std::chrono::nanoseconds cost);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WAIT_POLICY_H_

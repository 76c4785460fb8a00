#include "client/transport/shm/wait_policy.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/cpu_affinity.h"
#include "base/thread.h"
#include "client/transport/shm/futex.h"

namespace lockstep::transport {

// Half of a round trip between two sleeping threads, the best of a few rounds,
// so that a busy machine does not look like a slow one. The threads are on
// different cores, as ranks are: on one core, where the scheduler likes to put
// them, a sleep costs a twentieth, because no core becomes idle. With one core
// that cannot be measured.
//
// Both threads are made for this, so that no mask of the caller's changes.
std::chrono::nanoseconds CostOfSleep() {
  constexpr int kRounds = 8;
  // No machine is slower; a longer time means that it is busy.
  constexpr std::chrono::nanoseconds kMost{100'000};
  constexpr std::chrono::nanoseconds kNap{10'000'000};
  // On virtual machines.
  constexpr std::chrono::nanoseconds kTypical{20'000};
  const std::optional<cpu_set_t> cores = AllowedCores();
  if (!cores || CPU_COUNT(&*cores) < 2) return kTypical;
  std::atomic<uint32_t> there{0};
  std::atomic<uint32_t> back{0};
  std::chrono::nanoseconds best = kMost;
  std::thread one = StartThread("ls-calibrate", [&] {
    RunOn(ShareOfCores(*cores, 0, 2));
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto begin = WaitPolicy::Clock::now();
      ++there;
      WakeAll(there);
      while (back.load() == round) SleepOn(back, round, kNap);
      best = std::min<std::chrono::nanoseconds>(
          best, (WaitPolicy::Clock::now() - begin) / 2);
    }
  });
  std::thread other = StartThread("ls-calibrate", [&] {
    RunOn(ShareOfCores(*cores, 1, 2));
    for (uint32_t round = 0; round < kRounds; ++round) {
      while (there.load() == round) SleepOn(there, round, kNap);
      ++back;
      WakeAll(back);
    }
  });
  one.join();
  other.join();
  return best;
}

WaitPolicy WaitPolicyFor(int ranks, int cores, std::chrono::nanoseconds cost) {
  // If ranks share a core, a yield lets another rank run. So a rank keeps
  // yielding for as long as the others may need the core.
  constexpr std::chrono::nanoseconds kTurns{300'000};
  WaitPolicy wait_policy;
  const bool oversubscribed = ranks > cores;
  wait_policy.looks = oversubscribed ? std::chrono::nanoseconds(0) : cost;
  wait_policy.all = oversubscribed ? std::max(2 * cost, kTurns) : 2 * cost;
  return wait_policy;
}

}  // namespace lockstep::transport

// Futex wait and wake on a word of shared memory.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_FUTEX_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace lockstep::transport {

// Returns at once if `word` is not `seen`, else when woken, after `most`, or
// spuriously.
inline void SleepOn(std::atomic<uint32_t>& word, uint32_t seen,
                    std::chrono::nanoseconds most) {
  const timespec timeout{static_cast<time_t>(most.count() / 1'000'000'000),
                         static_cast<long>(most.count() % 1'000'000'000)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen,
          &timeout, nullptr, 0);
}

inline void WakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX,
          nullptr, nullptr, 0);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_FUTEX_H_

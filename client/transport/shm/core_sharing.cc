#include "client/transport/shm/core_sharing.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/cpu_affinity.h"
#include "base/file_descriptor.h"

namespace lockstep::transport {

int RunnableThreads() {
  constexpr int kUnknown = 1 << 30;
  const FileDescriptor file(open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!file.valid() || read(file.get(), text, sizeof text - 1) <= 0) {
    return kUnknown;
  }
  // "0.20 0.18 0.12 RUNNABLE/ALL LAST_PID"
  const char* at = text;
  for (int field = 0; field < 3 && at != nullptr; ++field) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at == nullptr ? kUnknown : std::atoi(at);
}

RankMask CoreSharing::Publish(RankMask ranks) {
  const int core = sched_getcpu();
  if (core < 0) return 0;
  const auto own = static_cast<uint32_t>(core) + 1;  // 0: not published
  std::atomic<uint32_t>& word = *cores_[rank_];
  // A store would take the line from the peers that read it.
  if (word.load(std::memory_order_relaxed) != own) {
    word.store(own, std::memory_order_relaxed);
  }
  RankMask sharing = 0;
  for (RankMask rest = ranks & ~MaskOf(rank_); rest != 0; rest &= rest - 1) {
    const int peer = std::countr_zero(rest);
    if (cores_[peer]->load(std::memory_order_relaxed) == own) {
      sharing |= MaskOf(peer);
    }
  }
  return sharing;
}

void CoreSharing::ComeApart(RankMask sharing, Clock::time_point now) {
  // The lowest rank stays.
  const bool stays = sharing == 0 || std::countr_zero(sharing) > rank_;
  if (stays || !TakeTurn(now)) return;
  if (runnable_() <= sysconf(_SC_NPROCESSORS_ONLN)) Move();
}

bool CoreSharing::TakeTurn(Clock::time_point now) {
  Clock::rep at = not_before_.load(std::memory_order_relaxed);
  const Clock::rep time = now.time_since_epoch().count();
  const Clock::rep pause = Clock::duration(kPause).count();
  return time >= at && not_before_.compare_exchange_strong(at, time + pause);
}

void CoreSharing::Move() {
  const AffinityRestorer restorer;
  if (!restorer.cores()) return;
  cpu_set_t free = *restorer.cores();
  for (const std::atomic<uint32_t>* core : cores_) {
    const uint32_t word = core->load(std::memory_order_relaxed);
    // A peer may have written anything.
    if (word >= 1 && word <= CPU_SETSIZE) {
      free = Without(free, static_cast<int>(word - 1));
    }
  }
  if (CPU_COUNT(&free) > 0) RunOn(free);
}

}  // namespace lockstep::transport

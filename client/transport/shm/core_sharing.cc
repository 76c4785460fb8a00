#include "client/transport/shm/core_sharing.h"

#include <sched.h>

#include <bit>

namespace lockstep::transport {

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

}  // namespace lockstep::transport

#include "client/transport/shm/shm_host.h"

#include <utility>

namespace lockstep::transport {

// A chunk has one part for each rank, in whole cache lines.
ControlBlock::Shape ShmHost::ShapeOf(int size, TrafficClass traffic) {
  const bool bulk = traffic == TrafficClass::kBulk;
  const size_t unit = 64 * static_cast<size_t>(size);
  const size_t chunk = bulk ? 512 << 10 : 64 << 10;
  return {.size = size,
          .chunk_bytes = (chunk + unit - 1) / unit * unit,
          .block_bytes = static_cast<size_t>(bulk ? 128 << 10 : 16 << 10)};
}

std::unique_ptr<ShmGroup> ShmHost::MakeGroup(const ShmGroupMembers& roster,
                                             std::vector<Peer> peers) const {
  WaitPolicy wait_policy = WaitPolicyFor(static_cast<int>(peers.size()),
                                         CoresOf(peers), cost_of_sleep_);
  wait_policy.silence = absl::ToChronoNanoseconds(silence_);
  return std::make_unique<ShmGroup>(roster, std::move(peers), registry_,
                                    wait_policy);
}

}  // namespace lockstep::transport

// Counts the bytes that a rank's operations move, by kind of lane.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_LANE_TRAFFIC_H_
#define LOCKSTEP_CLIENT_EXECUTOR_LANE_TRAFFIC_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "plan/ir.h"

namespace lockstep::executor {

class LaneTraffic {
 public:
  // The bytes of a transfer's input on this rank: of a received message none.
  static uint64_t BytesOf(const plan::Transfer& transfer) {
    if (transfer.kind == plan::TransferKind::kRecv) return 0;
    return static_cast<uint64_t>(CountOf(transfer)) * SizeOf(transfer.dtype);
  }

  void Add(plan::LaneKind kind, uint64_t bytes) {
    bytes_[static_cast<size_t>(kind)].fetch_add(bytes,
                                                std::memory_order_relaxed);
  }
  uint64_t Of(plan::LaneKind kind) const {
    return bytes_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>,
             static_cast<size_t>(plan::LaneKind::kVerdict) + 1>
      bytes_ = {};
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_LANE_TRAFFIC_H_

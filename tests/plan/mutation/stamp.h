// Stamps: 64-bit hashes that stand for tensors. A stamp hashes the work that
// computed the tensor and the stamps of its inputs, so tensors that were
// computed differently have different stamps.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_STAMP_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_STAMP_H_

#include <cstdint>
#include <initializer_list>

namespace lockstep::plan::oracle {

// The contents of a buffer before its first write and during a receive.
inline constexpr uint64_t kGarbage = 0;

// splitmix64's finaliser over the fields, one after the other.
inline uint64_t StampOf(std::initializer_list<uint64_t> fields) {
  uint64_t stamp = 0x9e3779b97f4a7c15;
  for (const uint64_t field : fields) {
    stamp += field + 0x9e3779b97f4a7c15;
    stamp = (stamp ^ (stamp >> 30)) * 0xbf58476d1ce4e5b9;
    stamp = (stamp ^ (stamp >> 27)) * 0x94d049bb133111eb;
    stamp ^= stamp >> 31;
  }
  return stamp;
}

inline uint64_t PartOf(uint64_t result, int part) {
  return StampOf({result, static_cast<uint64_t>(part)});
}

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_STAMP_H_

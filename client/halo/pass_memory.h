// The memory of one call of a halo exchange.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_HALO_PASS_MEMORY_H_
#define LOCKSTEP_CLIENT_HALO_PASS_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"

namespace lockstep::halo {

// Padded tensors, or their gradients, and blocks, or theirs. All blocks are
// null in place.
using Pointers = absl::InlinedVector<void*, 4>;
struct PassMemory {
  Pointers padded;
  Pointers blocks;
};

// The size of each tensor of an exchange.
struct PassBytes {
  std::vector<uint64_t> padded;
  std::vector<uint64_t> blocks;
};

struct PassRules {
  bool may_be_in_place = true;
  bool writes_blocks = false;  // padded tensors may be written in any pass
};

// InvalidArgument, which begins with `name`: another number of tensors than
// `bytes` has, a null padded tensor, null blocks but for all of them in place,
// and memory that may be written and overlaps anything else.
absl::Status CheckMemory(const PassMemory& memory, const PassBytes& bytes,
                         const PassRules& rules, const std::string& name);

}  // namespace lockstep::halo

#endif  // LOCKSTEP_CLIENT_HALO_PASS_MEMORY_H_

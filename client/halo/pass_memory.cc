#include "client/halo/pass_memory.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status.h"

namespace lockstep::halo {
namespace {

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// Nothing that is given overlaps the padded tensor `i`.
absl::Status CheckPadded(size_t i, const PassMemory& memory,
                         const PassBytes& bytes) {
  void* const padded = memory.padded[i];
  for (size_t j = 0; j < memory.blocks.size(); ++j) {
    if (memory.blocks[j] == nullptr ||
        !Overlap(padded, bytes.padded[i], memory.blocks[j], bytes.blocks[j])) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "padded tensor %d and block %d overlap: in place, blocks are null", i,
        j));
  }
  for (size_t j = 0; j < i; ++j) {
    if (Overlap(padded, bytes.padded[i], memory.padded[j], bytes.padded[j])) {
      return absl::InvalidArgumentError(
          absl::StrFormat("padded tensors %d and %d overlap", j, i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const PassMemory& memory, const PassBytes& bytes) {
  for (size_t i = 0; i < memory.blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(memory.blocks[i], bytes.blocks[i], memory.blocks[j],
                  bytes.blocks[j])) {
        return absl::InvalidArgumentError(
            absl::StrFormat("blocks %d and %d overlap", j, i));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const PassMemory& memory, const PassBytes& bytes,
                   const PassRules& rules) {
  if (memory.padded.size() != bytes.padded.size() ||
      memory.blocks.size() != bytes.padded.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d padded tensors and %d blocks are given, it has %d",
        memory.padded.size(), memory.blocks.size(), bytes.padded.size()));
  }
  for (size_t i = 0; i < memory.padded.size(); ++i) {
    if (memory.padded[i] != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("padded tensor %d is null", i));
  }
  const auto null_blocks = static_cast<size_t>(
      std::count(memory.blocks.begin(), memory.blocks.end(), nullptr));
  const bool in_place = null_blocks == memory.blocks.size();
  if (null_blocks > 0 && !(rules.may_be_in_place && in_place)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d of %d blocks are null%s", null_blocks, memory.blocks.size(),
        rules.may_be_in_place ? ": in place all are, else none" : ""));
  }
  for (size_t i = 0; i < memory.padded.size(); ++i) {
    absl::Status status = CheckPadded(i, memory, bytes);
    if (!status.ok()) return status;
  }
  if (rules.writes_blocks && !in_place) return CheckBlocks(memory, bytes);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMemory(const PassMemory& memory, const PassBytes& bytes,
                         const PassRules& rules, const std::string& name) {
  return WithContext(name, Check(memory, bytes, rules));
}

}  // namespace lockstep::halo

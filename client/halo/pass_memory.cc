#include "client/halo/pass_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::halo {
namespace {

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// What overlaps the padded tensor `i`; empty if nothing does.
std::string OverlapOf(size_t i, const PassMemory& memory,
                      const PassBytes& bytes) {
  void* const padded = memory.padded[i];
  for (size_t j = 0; j < memory.blocks.size(); ++j) {
    if (memory.blocks[j] == nullptr ||
        !Overlap(padded, bytes.padded[i], memory.blocks[j], bytes.blocks[j])) {
      continue;
    }
    return absl::StrFormat(
        "padded tensor %d and block %d overlap: in place, blocks are null", i,
        j);
  }
  for (size_t j = 0; j < i; ++j) {
    if (Overlap(padded, bytes.padded[i], memory.padded[j], bytes.padded[j])) {
      return absl::StrFormat("padded tensors %d and %d overlap", j, i);
    }
  }
  return "";
}

std::string OverlapOfBlocks(const PassMemory& memory, const PassBytes& bytes) {
  for (size_t i = 0; i < memory.blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(memory.blocks[i], bytes.blocks[i], memory.blocks[j],
                  bytes.blocks[j])) {
        return absl::StrFormat("blocks %d and %d overlap", j, i);
      }
    }
  }
  return "";
}

std::string FaultOf(const PassMemory& memory, const PassBytes& bytes,
                    const PassRules& rules) {
  if (memory.padded.size() != bytes.padded.size() ||
      memory.blocks.size() != bytes.padded.size()) {
    return absl::StrFormat(
        "%d padded tensors and %d blocks are given, it has %d",
        memory.padded.size(), memory.blocks.size(), bytes.padded.size());
  }
  for (size_t i = 0; i < memory.padded.size(); ++i) {
    if (memory.padded[i] != nullptr) continue;
    return absl::StrFormat("padded tensor %d is null", i);
  }
  const auto null_blocks = static_cast<size_t>(
      std::count(memory.blocks.begin(), memory.blocks.end(), nullptr));
  const bool in_place = null_blocks == memory.blocks.size();
  if (null_blocks > 0 && !(rules.may_be_in_place && in_place)) {
    return absl::StrFormat(
        "%d of %d blocks are null%s", null_blocks, memory.blocks.size(),
        rules.may_be_in_place ? ": in place all are, else none" : "");
  }
  for (size_t i = 0; i < memory.padded.size(); ++i) {
    std::string overlap = OverlapOf(i, memory, bytes);
    if (!overlap.empty()) return overlap;
  }
  return rules.writes_blocks && !in_place ? OverlapOfBlocks(memory, bytes) : "";
}

}  // namespace

absl::Status CheckMemory(const PassMemory& memory, const PassBytes& bytes,
                         const PassRules& rules, const std::string& name) {
  const std::string fault = FaultOf(memory, bytes, rules);
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", fault));
}

}  // namespace lockstep::halo

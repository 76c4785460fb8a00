// The bytes of a fuzzer, taken apart: numbers and texts from the front.
//
// Past the end everything is 0 or empty, so that every input has a meaning and
// a short one is a short history.

#ifndef LOCKSTEP_TESTS_FUZZ_FUZZ_INPUT_H_
#define LOCKSTEP_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::fuzz {

// Ends the program, which is how a fuzzer learns of a broken promise.
inline void Require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return bytes_.empty(); }

  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return byte;
  }

  // In [0, count).
  int Below(int count) { return Byte() % count; }

  // In [0, max]: mostly small, so that values meet.
  uint64_t Number(uint64_t max) {
    const uint8_t kind = Byte();
    if (kind < 200) return std::min<uint64_t>(kind % 8, max);
    if (kind < 210) return max;
    if (kind < 230) return std::min<uint64_t>(Byte(), max);
    uint64_t number = 0;
    Copy(&number, sizeof number);
    return max == UINT64_MAX ? number : number % (max + 1);
  }

  std::string Text(size_t bytes_max) {
    const size_t size = std::min({size_t{Byte()}, bytes_max, bytes_.size()});
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }

  // Fills `bytes` bytes; what is missing is 0.
  void Copy(void* to, size_t bytes) {
    std::memset(to, 0, bytes);
    const size_t size = std::min(bytes, bytes_.size());
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string Rest() {
    std::string rest(bytes_);
    bytes_ = {};
    return rest;
  }

 private:
  absl::string_view bytes_;
};

}  // namespace lockstep::fuzz

#endif  // LOCKSTEP_TESTS_FUZZ_FUZZ_INPUT_H_

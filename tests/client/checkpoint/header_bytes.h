// The bytes of a safetensors header, written by hand.

#ifndef LOCKSTEP_TESTS_CLIENT_CHECKPOINT_HEADER_BYTES_H_
#define LOCKSTEP_TESTS_CLIENT_CHECKPOINT_HEADER_BYTES_H_

#include <cstdint>
#include <string>

namespace lockstep::checkpoint {

// A little-endian number of 8 bytes.
inline std::string LengthBytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(length >> (8 * i) & 0xFF);
  return bytes;
}

inline std::string HeaderBytes(const std::string& json) {
  return LengthBytes(json.size()) + json;
}

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_TESTS_CLIENT_CHECKPOINT_HEADER_BYTES_H_

#include "server/journal/wal_check.h"

#include <cstdint>

namespace lockstep::journal {
namespace {

constexpr size_t kWalHeaderBytes = 32;
constexpr size_t kWalFrameHeaderBytes = 24;
constexpr uint32_t kMagic = 0x377f0682;  // the lowest bit: big-endian checksums
constexpr size_t kPageBytesMax = 65536;

uint32_t BigEndian32(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

uint32_t Swapped(uint32_t value) { return __builtin_bswap32(value); }

// The running checksum over words of 32 bits, which each frame continues.
class WalChecksum {
 public:
  explicit WalChecksum(bool big_endian) : big_endian_(big_endian) {}

  void Add(absl::string_view bytes) {
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first_ += Word(bytes, at) + second_;
      second_ += Word(bytes, at + 4) + first_;
    }
  }
  bool IsAt(absl::string_view bytes, size_t at) const {
    return BigEndian32(bytes, at) == first_ &&
           BigEndian32(bytes, at + 4) == second_;
  }

 private:
  uint32_t Word(absl::string_view bytes, size_t at) const {
    const uint32_t word = BigEndian32(bytes, at);
    return big_endian_ ? word : Swapped(word);
  }

  const bool big_endian_;
  uint32_t first_ = 0;
  uint32_t second_ = 0;
};

}  // namespace

WalExtent ExamineWal(absl::string_view log) {
  if (log.size() < kWalHeaderBytes) return {.valid = 0, .cut = true};
  const uint32_t magic = BigEndian32(log, 0);
  const size_t page_bytes = BigEndian32(log, 8);
  WalChecksum checksum(/*big_endian=*/(magic & 1) != 0);
  checksum.Add(log.substr(0, 24));
  if ((magic & ~1u) != kMagic || page_bytes > kPageBytesMax ||
      !checksum.IsAt(log, 24)) {
    return {};
  }

  const absl::string_view salts = log.substr(16, 8);
  const size_t frame_bytes = kWalFrameHeaderBytes + page_bytes;
  size_t at = kWalHeaderBytes;
  while (at + frame_bytes <= log.size()) {
    const absl::string_view frame = log.substr(at, frame_bytes);
    checksum.Add(frame.substr(0, 8));
    checksum.Add(frame.substr(kWalFrameHeaderBytes));
    if (frame.substr(8, 8) != salts || !checksum.IsAt(frame, 16)) {
      return {.valid = at};
    }
    at += frame_bytes;
  }
  return {.valid = at, .cut = true};
}

}  // namespace lockstep::journal

// How a record lies in a journal, whatever holds the journal.
//
//   | length u32 | crc u32 | number u64 | predecessor u64 | payload |
//                └──────── crc covers ──────────────────────────────┘
//
// Little endian. `predecessor` is the hash of the whole frame before (0 for the
// first), so a record that was lost, doubled or moved is noticed even if each
// frame is sound. CRC-32C notices a flipped bit; neither is a defence against
// forgery.
//
// What a crash tears off the end was never promised and is dropped. Damage with
// a sound frame behind it was promised, and is an error.
//
// Threads: pure functions and values.

#ifndef LOCKSTEP_SERVER_JOURNAL_FRAME_H_
#define LOCKSTEP_SERVER_JOURNAL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep::journal {

inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kPayloadBytesMax = 64 << 20;

struct Frame {
  uint64_t number = 0;       // 1, 2, 3, ...
  uint64_t predecessor = 0;  // HashOf the frame before
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// The payload must not exceed kPayloadBytesMax.
std::string Encode(const Frame& frame);

// DataLoss: too short, a length that is not that of the bytes, a wrong CRC.
absl::StatusOr<Frame> Decode(absl::string_view bytes);

uint64_t HashOf(absl::string_view frame_bytes);

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t Crc32c(absl::string_view bytes);

// The end of a journal: what the next frame must follow.
class Chain {
 public:
  uint64_t last_number() const { return number_; }

  // Makes the next frame and goes on to it.
  std::string Extend(std::string payload);

  // Takes a frame that was read and returns its payload. DataLoss, and the
  // chain stays where it is, if it does not decode or does not follow.
  absl::StatusOr<std::string> Follow(absl::string_view bytes);

 private:
  uint64_t number_ = 0;
  uint64_t hash_ = 0;
};

// What was read back: the payloads of the sound frames, the chain to go on
// with, and how many frames at the end were torn and must be removed.
struct Recovered {
  std::vector<std::string> payloads;
  Chain chain;
  size_t torn = 0;
};

// `frames` as they lie. DataLoss names the first damaged record if a sound
// frame lies behind it.
absl::StatusOr<Recovered> Recover(const std::vector<std::string>& frames);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_FRAME_H_

// The format of a journal record, independent of the store.
//
//   | length u32 | crc u32 | number u64 | predecessor u64 | payload |
//                └──────── crc covers ──────────────────────────────┘
//
// Little endian. `predecessor` is the hash of the whole previous frame (0 for
// the first), so a record that was lost, doubled or moved is detected even if
// each frame is intact. CRC-32C detects flipped bits; neither protects against
// forgery.
//
// A torn frame at the end was never promised and is dropped. A damaged frame
// with an intact frame behind it was promised, and is an error.
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
  uint64_t predecessor = 0;  // HashOf the previous frame
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// The payload must not exceed kPayloadBytesMax.
std::string Encode(const Frame& frame);

// DataLoss: too short, a length that does not match the bytes, a wrong CRC.
absl::StatusOr<Frame> Decode(absl::string_view bytes);

// DataLoss that names the record.
absl::Status DamagedRecord(uint64_t number, absl::string_view why);

uint64_t HashOf(absl::string_view frame_bytes);

// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t Crc32c(absl::string_view bytes);

// The end of a journal, from which the next frame continues.
class Chain {
 public:
  Chain() = default;  // the next frame is the first
  // Continues behind frame `number`, whose hash is `hash`.
  Chain(uint64_t number, uint64_t hash) : number_(number), hash_(hash) {}

  uint64_t last_number() const { return number_; }
  uint64_t last_hash() const { return hash_; }

  // Encodes the next frame and advances to it.
  std::string Extend(std::string payload);

  // Checks a frame that was read and returns its payload. DataLoss, with no
  // change, if it does not decode or does not follow.
  absl::StatusOr<std::string> Follow(absl::string_view bytes);

 private:
  uint64_t number_ = 0;
  uint64_t hash_ = 0;
};

// Where a chain ends, as a frame: its number, and as `predecessor` the hash of
// that record. Marks, heads and headers of snapshots are such frames.
std::string EndFrame(const Chain& end, std::string payload = "");

// The result of reading a journal: the payloads of the intact frames, the chain
// to continue from, and the number of torn frames at the end to remove.
struct Recovered {
  std::vector<std::string> payloads;
  Chain chain;
  size_t torn = 0;
};

// `frames` in stored order, behind `chain`. DataLoss names the first damaged
// record if an intact frame follows it.
absl::StatusOr<Recovered> Recover(const std::vector<std::string>& frames,
                                  Chain chain = {});

// --- Snapshots
// ----------------------------------------------------------------
// Frame 0 has the end of the chain that the snapshot replaces, and the number
// of parts; frames 1, 2, ... are the parts.

std::vector<std::string> SnapshotFrames(const Chain& of,
                                        const std::vector<std::string>& parts);

struct StoredSnapshot {
  std::vector<std::string> parts;
  Chain of;
};

// DataLoss names the damaged part.
absl::StatusOr<StoredSnapshot> ReadSnapshot(
    const std::vector<std::string>& frames);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_FRAME_H_

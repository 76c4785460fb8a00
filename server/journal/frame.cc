#include "server/journal/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep::journal {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kCrcEnd = 8;  // the CRC covers everything from here

void PutLittleEndian(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value & 0xff));
    value >>= 8;
  }
}

uint64_t GetLittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kReflectedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? kReflectedPolynomial : 0);
    }
    table[byte] = crc;
  }
  return table;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  }
  return ~crc;
}

uint64_t HashOf(absl::string_view frame_bytes) {
  return XXH3_64bits(frame_bytes.data(), frame_bytes.size());
}

std::string Encode(const Frame& frame) {
  Check(frame.payload.size() <= kPayloadBytesMax, "a record is too large");
  std::string covered;
  PutLittleEndian(frame.number, 8, &covered);
  PutLittleEndian(frame.predecessor, 8, &covered);
  covered.append(frame.payload);

  std::string bytes;
  PutLittleEndian(frame.payload.size(), kLengthBytes, &bytes);
  PutLittleEndian(Crc32c(covered), kCrcEnd - kLengthBytes, &bytes);
  bytes.append(covered);
  return bytes;
}

absl::Status DamagedRecord(uint64_t number, absl::string_view why) {
  return absl::DataLossError(
      absl::StrFormat("record %d of the journal is damaged: %s", number, why));
}

absl::StatusOr<Frame> Decode(absl::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes are no frame: it has at least %d",
                        bytes.size(), kFrameHeaderBytes));
  }
  const uint64_t length = GetLittleEndian(bytes.substr(0, kLengthBytes));
  if (length != bytes.size() - kFrameHeaderBytes) {
    return absl::DataLossError(
        absl::StrFormat("a frame of %d bytes says that it has %d", bytes.size(),
                        length + kFrameHeaderBytes));
  }
  const uint64_t crc = GetLittleEndian(bytes.substr(kLengthBytes, 4));
  const uint64_t computed = Crc32c(bytes.substr(kCrcEnd));
  if (crc != computed) {
    return absl::DataLossError(
        absl::StrFormat("the CRC is %08x, the frame says %08x", computed, crc));
  }
  return Frame{.number = GetLittleEndian(bytes.substr(kCrcEnd, 8)),
               .predecessor = GetLittleEndian(bytes.substr(kCrcEnd + 8, 8)),
               .payload = std::string(bytes.substr(kFrameHeaderBytes))};
}

std::string Chain::Extend(std::string payload) {
  std::string bytes = Encode({.number = ++number_,
                              .predecessor = hash_,
                              .payload = std::move(payload)});
  hash_ = HashOf(bytes);
  return bytes;
}

absl::StatusOr<std::string> Chain::Follow(absl::string_view bytes) {
  absl::StatusOr<Frame> frame = Decode(bytes);
  if (!frame.ok()) return frame.status();
  if (frame->number != number_ + 1) {
    return absl::DataLossError(absl::StrFormat(
        "it has number %d where %d was due", frame->number, number_ + 1));
  }
  if (frame->predecessor != hash_) {
    return absl::DataLossError(absl::StrFormat(
        "it follows a record with hash %016x, but the one before it has %016x",
        frame->predecessor, hash_));
  }
  ++number_;
  hash_ = HashOf(bytes);
  return std::move(frame->payload);
}

absl::StatusOr<Recovered> Recover(const std::vector<std::string>& frames,
                                  Chain chain) {
  const uint64_t first = chain.last_number() + 1;
  Recovered recovered{.chain = chain};
  size_t at = 0;
  absl::Status damage;
  for (; at < frames.size(); ++at) {
    absl::StatusOr<std::string> payload = recovered.chain.Follow(frames[at]);
    if (!payload.ok()) {
      damage = payload.status();
      break;
    }
    recovered.payloads.push_back(*std::move(payload));
  }
  recovered.torn = frames.size() - at;
  for (size_t behind = at; behind < frames.size(); ++behind) {
    if (!Decode(frames[behind]).ok()) continue;
    return DamagedRecord(first + at, damage.message());
  }
  return recovered;
}

std::string EndFrame(const Chain& end, std::string payload) {
  return Encode({.number = end.last_number(),
                 .predecessor = end.last_hash(),
                 .payload = std::move(payload)});
}

std::vector<std::string> SnapshotFrames(const Chain& of,
                                        const std::vector<std::string>& parts) {
  std::vector<std::string> frames = {EndFrame(of, absl::StrCat(parts.size()))};
  Chain chain(0, HashOf(frames.front()));
  for (const std::string& part : parts) frames.push_back(chain.Extend(part));
  return frames;
}

absl::StatusOr<StoredSnapshot> ReadSnapshot(
    const std::vector<std::string>& frames) {
  if (frames.empty()) return absl::DataLossError("the snapshot has no header");
  const absl::StatusOr<Frame> header = Decode(frames.front());
  uint64_t count = 0;
  if (!header.ok() || !absl::SimpleAtoi(header->payload, &count)) {
    return WithContext(
        "the snapshot is damaged",
        header.ok() ? absl::DataLossError("its header") : header.status());
  }
  StoredSnapshot snapshot{.of = Chain(header->number, header->predecessor)};
  Chain chain(0, HashOf(frames.front()));
  for (size_t i = 1; i < frames.size(); ++i) {
    auto part = chain.Follow(frames[i]);
    if (!part.ok()) {
      return WithContext(
          absl::StrFormat("part %d of the snapshot is damaged", i),
          part.status());
    }
    snapshot.parts.push_back(*std::move(part));
  }
  if (snapshot.parts.size() != count) {
    return absl::DataLossError(absl::StrFormat(
        "the snapshot has %d parts of %d", snapshot.parts.size(), count));
  }
  return snapshot;
}

}  // namespace lockstep::journal

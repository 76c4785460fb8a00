#include "client/transport/shm/box_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

constexpr size_t kHeaderWords = 2;
constexpr size_t kSegmentWords = 3;

uint64_t TypeOf(const MessageBox& box, size_t segment) {
  return segment | uint64_t{static_cast<uint8_t>(box.dtype)} << 8 |
         static_cast<uint64_t>(box.dims) << 16;
}

size_t SegmentOf(const BoxMessage& message, int memory) {
  const auto found = std::find_if(
      message.reaches.begin(), message.reaches.end(),
      [memory](const MemoryReach& reach) { return reach.memory == memory; });
  return static_cast<size_t>(found - message.reaches.begin());
}

class TableReader {
 public:
  TableReader(const std::byte* table, const BoxMessage& own, int peer,
              SegmentImporter& importer)
      : own_(own), peer_(peer), importer_(importer) {
    std::memcpy(words_, table, sizeof words_);
  }

  absl::StatusOr<BoxesOfPeer> Read() {
    const uint64_t segments = Take(), boxes = Take();
    if (boxes != own_.boxes.size()) return Corrupt("number of boxes", boxes);
    if (segments > kBoxTableWords / kSegmentWords) {
      return Corrupt("number of segments", segments);
    }
    BoxesOfPeer made;
    for (uint64_t s = 0; s < segments; ++s) {
      const SegmentAddress at{.segment = Take(), .offset = Take()};
      bytes_.push_back(Take());
      absl::StatusOr<std::byte*> memory = importer_.Resolve(at, bytes_.back());
      if (!memory.ok()) return memory.status();
      made.memory.push_back(*memory);
    }
    for (const MessageBox& box : own_.boxes) {
      absl::StatusOr<kernels::StridedBox> copy = Joined(box);
      if (!copy.ok()) return copy.status();
      made.copies.push_back(*copy);
    }
    return made;
  }

 private:
  // Past the table's end: 0, which is no count of a box.
  uint64_t Take() { return next_ < kBoxTableWords ? words_[next_++] : 0; }

  absl::Status Corrupt(absl::string_view what, uint64_t value) const {
    return WithFailedPeer(
        absl::DataLossError(absl::StrCat(
            "the shared-memory control block of rank ", peer_,
            " is corrupt: a table of boxes has the ", what, " ", value)),
        peer_);
  }

  // The copy of the peer's next box to `own`.
  absl::StatusOr<kernels::StridedBox> Joined(const MessageBox& own) {
    MessageBox theirs{.dtype = own.dtype, .dims = own.dims};
    const uint64_t type = Take();
    const uint64_t segment = type & 0xff;
    if (type != TypeOf(own, segment) || segment >= bytes_.size()) {
      return Corrupt("box type", type);
    }
    theirs.offset = static_cast<int64_t>(Take());
    for (int d = 0; d < own.dims; ++d) {
      theirs.counts[d] = static_cast<int64_t>(Take());
      if (theirs.counts[d] == own.counts[d]) continue;
      return Corrupt("count", static_cast<uint64_t>(theirs.counts[d]));
    }
    for (int d = 0; d < own.dims; ++d) {
      theirs.strides[d] = static_cast<int64_t>(Take());
    }
    int64_t begin = 0, end = 0;
    if (!ReachOf(theirs, &begin, &end) || begin < 0 ||
        static_cast<uint64_t>(end) > bytes_[segment]) {
      return Corrupt("offset", static_cast<uint64_t>(theirs.offset));
    }
    kernels::StridedBox copy{.dtype = own.dtype,
                             .in_memory = static_cast<int>(segment),
                             .out_memory = own.memory,
                             .dims = own.dims,
                             .in_offset = theirs.offset,
                             .out_offset = own.offset};
    std::copy_n(own.counts, own.dims, copy.counts);
    std::copy_n(theirs.strides, own.dims, copy.in_strides);
    std::copy_n(own.strides, own.dims, copy.out_strides);
    return kernels::Simplified(copy);
  }

  const BoxMessage& own_;
  const int peer_;
  SegmentImporter& importer_;
  uint64_t words_[kBoxTableWords];
  size_t next_ = 0;
  std::vector<uint64_t> bytes_;  // of each segment
};

}  // namespace

size_t BoxTableWords(const BoxMessage& message) {
  size_t words = kHeaderWords + kSegmentWords * message.reaches.size();
  for (const MessageBox& box : message.boxes) {
    words += 2 + 2 * static_cast<size_t>(box.dims);
  }
  return words;
}

bool WriteBoxTable(const BoxOperands& boxes, int reader,
                   SegmentExporter& exporter, std::byte* table) {
  const BoxMessage& message = *boxes.message;
  if (BoxTableWords(message) > kBoxTableWords) return false;
  const auto put = [&table](uint64_t word) {
    std::memcpy(table, &word, sizeof word);
    table += sizeof word;
  };
  put(message.reaches.size());
  put(message.boxes.size());
  for (const MemoryReach& reach : message.reaches) {
    const auto bytes = static_cast<size_t>(reach.end - reach.begin);
    const SegmentAddress at = exporter.Offer(
        static_cast<const std::byte*>(boxes.memory[reach.memory]) + reach.begin,
        bytes, MaskOf(reader));
    if (at.segment == 0) return false;
    put(at.segment);
    put(at.offset);
    put(bytes);
  }
  for (const MessageBox& box : message.boxes) {
    const size_t segment = SegmentOf(message, box.memory);
    put(TypeOf(box, segment));
    put(static_cast<uint64_t>(box.offset - message.reaches[segment].begin));
    for (int d = 0; d < box.dims; ++d) {
      put(static_cast<uint64_t>(box.counts[d]));
    }
    for (int d = 0; d < box.dims; ++d) {
      put(static_cast<uint64_t>(box.strides[d]));
    }
  }
  return true;
}

absl::StatusOr<BoxesOfPeer> ReadBoxTable(const std::byte* table,
                                         const BoxMessage& own, int peer,
                                         SegmentImporter& importer) {
  return TableReader(table, own, peer, importer).Read();
}

}  // namespace lockstep::transport

// A rank's seat: the memory in which it says what it does, one per rank and
// group, mapped by all members. Each word has one writer, its rank; only the
// bell is rung by others.
//
//   header    who, which group; bell, gone, finished; segments it has shared
//   cells     one per collective under way: [arrived | what][small payload]
//             [staged][read][taken]
//   mail      to each rank, one per message under way: as a cell
//   receipts  from each rank, one per message under way: [wanted][taken][done]
//   stage     chunks of private buffers in collectives: lanes x depth
//   blocks    chunks of private buffers in messages
//
// Progress words hold (number << 24 | chunks), so that they only ever grow: a
// cell is used again for the collective kCollectiveSlots later, which its rank
// begins only when all ranks have finished this one (`finished`). So at most
// kCollectiveSlots collectives of a group, kLanes of them large and private,
// and kMessageSlots messages between two ranks are under way at once; a later
// one waits.
//
// A seat belongs to one group of one epoch and is never used again.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/transport/common/announcement.h"

namespace lockstep::transport {

inline constexpr int kRanksMax = 64;  // of one host in one group
inline constexpr int kCollectiveSlots = 32;
inline constexpr int kMessageSlots = 8;
inline constexpr int kLanes = 2;
inline constexpr int kDepth = 3;
inline constexpr int kBlocks = 8;
inline constexpr int kBlocksOfMessage = 4;
inline constexpr int kSegmentsMax = 256;
inline constexpr int kCoreWords = 16;  // 64 cores each
inline constexpr size_t kSmallBytes = 8 << 10;
inline constexpr size_t kSmallMessageBytes = 1 << 10;

// Sets of ranks.
using RankMask = uint64_t;
inline RankMask MaskOf(int rank) { return RankMask{1} << rank; }

// A progress word: `chunks` of operation `number` are done.
inline uint64_t Reached(uint64_t number, uint64_t chunks) {
  return number << 24 | chunks;
}
inline constexpr uint64_t kChunksMax = uint64_t{1} << 24;

// Where a buffer lies, for those who have mapped its rank's segments.
struct SegmentAddress {
  uint64_t segment = 0;  // 0: in private memory
  uint64_t offset = 0;
};

// How a rank's bytes get to the others.
enum class CopyMode : uint32_t {
  kInline = 1,  // the bytes are in the slot
  kDirect,      // they are read where they lie
  kStaged,      // they pass through the stage, chunk by chunk
};

// What a rank says when it comes to an operation.
struct PublishedCall {
  Announcement call;
  SegmentAddress in;
  SegmentAddress out;
  CopyMode copy_mode = CopyMode::kInline;
  uint32_t releases = 0;  // how often it has taken segments back
};
static_assert(sizeof(PublishedCall) == 56);

using SharedWord = std::atomic<uint64_t>;
static_assert(SharedWord::is_always_lock_free);

struct alignas(64) CollectiveSlot {
  SharedWord arrived;  // the number, once all of the below is there
  PublishedCall published;
  alignas(64) std::byte small[kSmallBytes];
  alignas(64) SharedWord staged;  // chunks of its own in the stage
  alignas(64) SharedWord read;    // has read all it reads of others' memory
  alignas(64)
      SharedWord folded;  // chunks with its part of the result in the stage
  alignas(64) SharedWord taken;  // chunks taken from the stages of all others
};

struct alignas(64) SendSlot {
  SharedWord arrived;
  PublishedCall published;
  alignas(64) std::byte small[kSmallMessageBytes];
  alignas(64) SharedWord staged;
  std::atomic<uint32_t> blocks[kBlocksOfMessage];  // of chunk c: [c % 4]
};

struct alignas(64) RecvSlot {
  SharedWord wanted;  // the number of the receive that has come
  SharedWord taken;
  SharedWord done;  // the sender's buffer is its own again
};

struct SharedEntry {
  SharedWord segment;  // an id; 0: free, or taken back
  SharedWord bytes;
};

struct alignas(64) ControlBlockHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t rank;
  uint32_t size;
  uint32_t unused;
  uint64_t group;  // a hash of all handles
  uint64_t bytes;
  uint64_t chunk_bytes;
  uint64_t block_bytes;
  uint64_t cores[kCoreWords];  // that it may run on, a bit each
  alignas(64) SharedWord probe[kRanksMax];
  alignas(64) std::atomic<uint32_t> wakes;     // rung: look again
  alignas(64) std::atomic<uint32_t> sleepers;  // who must be woken to look
  // 1 + the rank because of which it has gone, or its own.
  alignas(64) std::atomic<uint32_t> gone;
  alignas(64) SharedWord finished;  // all its collectives up to this number
  // It has unmapped what others shared with it, for good.
  alignas(64) std::atomic<uint32_t> let_go;
  alignas(64) SharedEntry shared[kSegmentsMax];
};

inline constexpr uint64_t kControlBlockMagic =
    0x317461655370634c;  // "LcpSeat1"
inline constexpr uint32_t kControlBlockVersion = 1;

// The parts of a mapped seat.
class ControlBlock {
 public:
  struct Shape {
    int size = 1;
    size_t chunk_bytes = 0;  // a multiple of 64 * size
    size_t block_bytes = 0;
  };

  static size_t Bytes(const Shape& shape) {
    return StageAt(shape) + kLanes * kDepth * shape.chunk_bytes +
           kBlocks * shape.block_bytes;
  }

  ControlBlock() = default;
  ControlBlock(std::byte* data, const Shape& shape)
      : data_(data), shape_(shape) {}

  ControlBlockHeader& header() const {
    return *reinterpret_cast<ControlBlockHeader*>(data_);
  }
  CollectiveSlot& cell(uint64_t number) const {
    return reinterpret_cast<CollectiveSlot*>(
        data_ + sizeof(ControlBlockHeader))[number % kCollectiveSlots];
  }
  SendSlot& mail(int to, uint64_t number) const {
    return reinterpret_cast<SendSlot*>(
        data_ + SendSlotsAt())[to * kMessageSlots + number % kMessageSlots];
  }
  RecvSlot& receipt(int from, uint64_t number) const {
    return reinterpret_cast<RecvSlot*>(
        data_ +
        RecvSlotsAt(shape_))[from * kMessageSlots + number % kMessageSlots];
  }
  // Where chunk `c` of collective `number` passes.
  std::byte* stage(uint64_t number, uint64_t c) const {
    const size_t buffer = number % kLanes * kDepth + c % kDepth;
    return data_ + StageAt(shape_) + buffer * shape_.chunk_bytes;
  }
  std::byte* block(uint32_t index) const {
    return data_ + StageAt(shape_) + kLanes * kDepth * shape_.chunk_bytes +
           index * shape_.block_bytes;
  }
  const Shape& shape() const { return shape_; }

 private:
  static size_t SendSlotsAt() {
    return sizeof(ControlBlockHeader) +
           kCollectiveSlots * sizeof(CollectiveSlot);
  }
  static size_t RecvSlotsAt(const Shape& shape) {
    return SendSlotsAt() + shape.size * kMessageSlots * sizeof(SendSlot);
  }
  static size_t StageAt(const Shape& shape) {
    const size_t end =
        RecvSlotsAt(shape) + shape.size * kMessageSlots * sizeof(RecvSlot);
    return (end + 4095) / 4096 * 4096;
  }

  std::byte* data_ = nullptr;
  Shape shape_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_H_

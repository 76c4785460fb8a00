// The control block of a rank: the shared memory in which it publishes its
// progress. There is one per rank and group, mapped by all members. Each word
// is written by its rank only; `wakes` and `probe` are written by others, too.
//
//   header            rank, group; wakes, gone, finished; exported segments
//   collective slots  one per collective in flight: [arrived | call][payload]
//                     [staged][read][folded][taken]
//   send slots        per destination, one per message in flight: the same;
//                     the payload, or a table of boxes (box_table.h)
//   recv slots        per source, one per message: [wanted][taken][done]
//   stage             chunks of private buffers in collectives: lanes x depth
//   blocks            chunks of private buffers in messages
//
// A progress word is (number << 24 | chunks), so it only grows. A slot is
// reused by the collective kCollectiveSlots later. A rank begins that one only
// when all ranks have finished this one (`finished`). So at most
// kCollectiveSlots collectives of a group, kLanes of them large and private,
// and kMessageSlots messages between two ranks are in flight; a later one
// waits.
//
// A control block belongs to one group of one epoch and is never reused.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/transport/common/announcement.h"

namespace lockstep::transport {

inline constexpr int kRanksMax = 64;  // on one host in one group
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

// The progress word for `chunks` finished chunks of operation `number`.
inline uint64_t Reached(uint64_t number, uint64_t chunks) {
  return number << 24 | chunks;
}
inline constexpr uint64_t kChunksMax = uint64_t{1} << 24;

// The position of a buffer in its owner's segments, as peers map them.
struct SegmentAddress {
  uint64_t segment = 0;  // 0: in private memory
  uint64_t offset = 0;
};

// How the peers read a rank's bytes.
enum class CopyMode : uint32_t {
  kInline = 1,  // from the slot
  kDirect,      // from the owner's segment
  kStaged,      // from the stage, chunk by chunk
  kBoxes,       // a message: boxes in the owner's segments (box_table.h)
};

// What a rank publishes when it arrives at an operation.
struct PublishedCall {
  Announcement call;
  SegmentAddress in;
  SegmentAddress out;
  CopyMode copy_mode = CopyMode::kInline;
  uint32_t releases = 0;  // how many exported segments it has freed
};
static_assert(sizeof(PublishedCall) == 56);

using SharedWord = std::atomic<uint64_t>;
static_assert(SharedWord::is_always_lock_free);

struct alignas(64) CollectiveSlot {
  SharedWord arrived;  // stored after `published` and `small` are complete
  PublishedCall published;
  alignas(64) std::byte small[kSmallBytes];
  alignas(64) SharedWord staged;  // own chunks copied to the own stage
  alignas(64) SharedWord read;    // no longer reads or writes peers' memory
  alignas(64)
      SharedWord reduced;  // chunks whose own part is reduced in the stage
  alignas(64) SharedWord taken;  // chunks copied out of all peers' stages
};

struct alignas(64) SendSlot {
  SharedWord arrived;
  PublishedCall published;
  alignas(64) std::byte small[kSmallMessageBytes];
  alignas(64) SharedWord staged;
  std::atomic<uint32_t> blocks[kBlocksOfMessage];  // chunk c: index c % 4
};

struct alignas(64) RecvSlot {
  SharedWord wanted;  // the receive has begun
  SharedWord taken;   // chunks copied out
  SharedWord done;    // the sender may reuse its buffer
};

struct SharedEntry {
  SharedWord segment;  // its id; 0: the entry is free
  SharedWord bytes;
};

struct alignas(64) ControlBlockHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t rank;
  uint32_t size;
  uint32_t unused;
  uint64_t group;  // GroupOf all handles
  uint64_t bytes;
  uint64_t chunk_bytes;
  uint64_t block_bytes;
  uint64_t cores[kCoreWords];                  // its CPU affinity mask
  alignas(64) SharedWord probe[kRanksMax];     // written by each peer once
  alignas(64) std::atomic<uint32_t> wakes;     // futex; grows with each wake
  alignas(64) std::atomic<uint32_t> sleepers;  // threads to be woken
  // 0: still a member; else 1 + the rank that caused it to leave, or its own.
  alignas(64) std::atomic<uint32_t> gone;
  alignas(64) SharedWord finished;  // all collectives up to this number
  // It has unmapped all segments of its peers and maps no more.
  alignas(64) std::atomic<uint32_t> let_go;
  // 1 + the core on which it waited last; 0: none yet. A hint.
  alignas(64) std::atomic<uint32_t> core;
  alignas(64) SharedEntry shared[kSegmentsMax];
};

inline constexpr uint64_t kControlBlockMagic =
    0x3142436c7274434c;  // "LCtrlCB1"
inline constexpr uint32_t kControlBlockVersion = 2;

// The parts of a mapped control block.
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

  // What collectives of small buffers touch: the header and their slots.
  static constexpr size_t kHotBytes =
      sizeof(ControlBlockHeader) + kCollectiveSlots * sizeof(CollectiveSlot);

  ControlBlockHeader& header() const {
    return *reinterpret_cast<ControlBlockHeader*>(data_);
  }
  CollectiveSlot& slot(uint64_t number) const {
    return reinterpret_cast<CollectiveSlot*>(
        data_ + sizeof(ControlBlockHeader))[number % kCollectiveSlots];
  }
  SendSlot& send_slot(int to, uint64_t number) const {
    return reinterpret_cast<SendSlot*>(
        data_ + SendSlotsAt())[to * kMessageSlots + number % kMessageSlots];
  }
  RecvSlot& recv_slot(int from, uint64_t number) const {
    return reinterpret_cast<RecvSlot*>(
        data_ +
        RecvSlotsAt(shape_))[from * kMessageSlots + number % kMessageSlots];
  }
  // The staging buffer of chunk `c` of collective `number`.
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

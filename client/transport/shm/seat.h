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
// cell is used again for the collective kCells later, which its rank begins
// only when all ranks have finished this one (`finished`). So at most kCells
// collectives of a group, kLanes of them large and private, and kMails messages
// between two ranks are under way at once; a later one waits.
//
// A seat belongs to one group of one epoch and is never used again.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SEAT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SEAT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/transport/announcement.h"

namespace lockstep::transport {

inline constexpr int kRanksMax = 64;  // of one host in one group
inline constexpr int kCells = 32;
inline constexpr int kMails = 8;
inline constexpr int kLanes = 2;
inline constexpr int kDepth = 3;
inline constexpr int kBlocks = 8;
inline constexpr int kBlocksOfMail = 4;
inline constexpr int kSegmentsMax = 256;
inline constexpr int kCoreWords = 16;  // 64 cores each
inline constexpr size_t kSmallBytes = 8 << 10;
inline constexpr size_t kSmallMailBytes = 1 << 10;

// Sets of ranks.
using RankMask = uint64_t;
inline RankMask MaskOf(int rank) { return RankMask{1} << rank; }

// A progress word: `chunks` of operation `number` are done.
inline uint64_t Reached(uint64_t number, uint64_t chunks) {
  return number << 24 | chunks;
}
inline constexpr uint64_t kChunksMax = uint64_t{1} << 24;

// Where a buffer lies, for those who have mapped its rank's segments.
struct Place {
  uint64_t segment = 0;  // 0: in private memory
  uint64_t offset = 0;
};

// How a rank's bytes get to the others.
enum class Way : uint32_t {
  kSmall = 1,  // they are in the cell
  kDirect,     // they are read where they lie
  kStaged,     // they pass through the stage, chunk by chunk
};

// What a rank says when it comes to an operation.
struct Said {
  Announcement call;
  Place in;
  Place out;
  Way way = Way::kSmall;
  uint32_t releases = 0;  // how often it has taken segments back
};
static_assert(sizeof(Said) == 56);

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free);

struct alignas(64) Cell {
  Word arrived;  // the number, once all of the below is there
  Said said;
  alignas(64) std::byte small[kSmallBytes];
  alignas(64) Word staged;  // chunks of its own in the stage
  alignas(64) Word read;    // has read all it reads of others' memory
  alignas(64) Word folded;  // chunks with its part of the result in the stage
  alignas(64) Word taken;   // chunks taken from the stages of all others
};

struct alignas(64) Mail {
  Word arrived;
  Said said;
  alignas(64) std::byte small[kSmallMailBytes];
  alignas(64) Word staged;
  std::atomic<uint32_t> blocks[kBlocksOfMail];  // of chunk c: [c % 4]
};

struct alignas(64) Receipt {
  Word wanted;  // the number of the receive that has come
  Word taken;
  Word done;  // the sender's buffer is its own again
};

struct SharedEntry {
  Word segment;  // an id; 0: free, or taken back
  Word bytes;
};

struct alignas(64) SeatHeader {
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
  alignas(64) Word probe[kRanksMax];
  alignas(64) std::atomic<uint32_t> bell;      // rung: look again
  alignas(64) std::atomic<uint32_t> sleepers;  // who must be woken to look
  // 1 + the rank because of which it has gone, or its own.
  alignas(64) std::atomic<uint32_t> gone;
  alignas(64) Word finished;  // all its collectives up to this number
  // It has unmapped what others shared with it, for good.
  alignas(64) std::atomic<uint32_t> let_go;
  alignas(64) SharedEntry shared[kSegmentsMax];
};

inline constexpr uint64_t kSeatMagic = 0x317461655370634c;  // "LcpSeat1"
inline constexpr uint32_t kSeatVersion = 1;

// The parts of a mapped seat.
class Seat {
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

  Seat() = default;
  Seat(std::byte* data, const Shape& shape) : data_(data), shape_(shape) {}

  SeatHeader& header() const { return *reinterpret_cast<SeatHeader*>(data_); }
  Cell& cell(uint64_t number) const {
    return reinterpret_cast<Cell*>(data_ + sizeof(SeatHeader))[number % kCells];
  }
  Mail& mail(int to, uint64_t number) const {
    return reinterpret_cast<Mail*>(data_ +
                                   MailAt())[to * kMails + number % kMails];
  }
  Receipt& receipt(int from, uint64_t number) const {
    return reinterpret_cast<Receipt*>(
        data_ + ReceiptAt(shape_))[from * kMails + number % kMails];
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
  static size_t MailAt() { return sizeof(SeatHeader) + kCells * sizeof(Cell); }
  static size_t ReceiptAt(const Shape& shape) {
    return MailAt() + shape.size * kMails * sizeof(Mail);
  }
  static size_t StageAt(const Shape& shape) {
    const size_t end = ReceiptAt(shape) + shape.size * kMails * sizeof(Receipt);
    return (end + 4095) / 4096 * 4096;
  }

  std::byte* data_ = nullptr;
  Shape shape_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SEAT_H_

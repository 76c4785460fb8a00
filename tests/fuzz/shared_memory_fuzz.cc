// What another process writes into shared memory, or sends over a local socket:
// tables of boxes, addresses of segments, copy modes, control blocks,
// announcements, headers of activations. Whatever it is, this process reads no
// byte outside of the memory that it was given.
//
//   | kind | fields |

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "client/pipeline/activation.h"
#include "client/transport/common/announcement.h"
#include "client/transport/common/box_message.h"
#include "client/transport/shm/box_table.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/control_block_check.h"
#include "client/transport/shm/copy_mode_check.h"
#include "client/transport/shm/local_socket.h"
#include "client/transport/shm/segment.h"
#include "client/transport/shm/segment_sharing.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

using transport::BoxesOfPeer;
using transport::BoxMessage;
using transport::ControlBlock;
using transport::MessageBox;
using transport::SegmentAddress;
using transport::SegmentImporter;

constexpr int kPeer = 1;

// The loan of a segment, as segment_sharing.cc sends it.
struct Loan {
  uint64_t id;
  uint64_t bytes;
};

// A peer with a few segments of 4 KiB and a control block, both as the fuzzer
// wants them.
class Peer {
 public:
  explicit Peer(FuzzInput& input)
      : header_(std::make_unique<transport::ControlBlockHeader>()) {
    int sockets[2];
    Require(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sockets) == 0,
        "sockets can be made");
    theirs_ = FileDescriptor(sockets[0]);
    ours_ = FileDescriptor(sockets[1]);
    for (int i = input.Below(4); i > 0; --i) Lend(input);
    for (auto& entry : header_->shared) {
      if (input.empty() || input.Byte() % 2 == 0) break;
      entry.segment = input.Number(UINT64_MAX);
      entry.bytes = input.Number(UINT64_MAX);
    }
    importer_ = std::make_unique<SegmentImporter>(
        kPeer,
        ControlBlock(reinterpret_cast<std::byte*>(header_.get()), {.size = 2}),
        ours_.get(), 1);
  }

  SegmentImporter& importer() { return *importer_; }

 private:
  static FileDescriptor Memory(FuzzInput& input) {
    FileDescriptor memory(
        memfd_create("fuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    const off_t bytes = input.Byte() % 8 == 0 ? input.Byte() * 16 : 4096;
    Require(ftruncate(memory.get(), bytes) == 0, "memory can be made");
    if (input.Byte() % 8 != 0) {
      fcntl(memory.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    }
    return memory;
  }

  void Lend(FuzzInput& input) {
    const FileDescriptor memory = Memory(input);
    const Loan loan = {1 + input.Number(UINT64_MAX - 1),
                       input.Byte() % 4 == 0 ? input.Number(UINT64_MAX) : 4096};
    std::vector<int> files(
        static_cast<size_t>(input.Byte() % 8 == 0 ? input.Below(3) : 1),
        memory.get());
    const size_t bytes =
        input.Byte() % 8 == 0 ? 1 + input.Byte() % sizeof loan : sizeof loan;
    transport::SendBytes(theirs_.get(), &loan, bytes, files).IgnoreError();
  }

  FileDescriptor theirs_, ours_;
  const std::unique_ptr<transport::ControlBlockHeader> header_;
  std::unique_ptr<SegmentImporter> importer_;
};

// Reads the first and the last byte: outside of a mapping that is a crash.
void Touch(const std::byte* memory, uint64_t bytes) {
  if (bytes == 0) return;
  const volatile std::byte* const data = memory;
  (void)data[0];
  (void)data[bytes - 1];
}

void ResolveAddresses(FuzzInput& input) {
  Peer peer(input);
  for (int i = 0; i < 8 && !input.empty(); ++i) {
    const SegmentAddress at = {input.Number(UINT64_MAX),
                               input.Number(UINT64_MAX)};
    const uint64_t bytes = input.Number(UINT64_MAX);
    const auto memory = peer.importer().Resolve(at, bytes);
    if (memory.ok()) Touch(*memory, bytes);
    if (input.Byte() % 4 == 0) {
      peer.importer().UnmapReleased(input.Byte());
    }
  }
}

// The box that this rank receives; its memory is large enough.
MessageBox OwnBox(FuzzInput& input) {
  MessageBox box{.dtype = input.Byte() % 2 == 0 ? DType::kF32 : DType::kU8,
                 .dims = 1 + input.Below(3)};
  int64_t stride = 1;
  for (int d = box.dims - 1; d >= 0; --d) {
    box.counts[d] = 1 + input.Below(8);
    box.strides[d] = stride;
    stride *= box.counts[d];
  }
  return box;
}

void ReadTable(FuzzInput& input) {
  Peer peer(input);
  std::vector<MessageBox> boxes;
  int64_t bytes = 0;
  for (int i = 1 + input.Below(3); i > 0; --i) {
    boxes.push_back(OwnBox(input));
    int64_t elements = 1;
    for (int d = 0; d < boxes.back().dims; ++d) {
      elements *= boxes.back().counts[d];
    }
    bytes += elements * static_cast<int64_t>(SizeOf(boxes.back().dtype));
  }
  const BoxMessage own = transport::MakeBoxMessage(boxes, {}, bytes);
  std::vector<std::byte> table(transport::kSmallMessageBytes);
  input.Copy(table.data(), table.size());
  const auto read =
      transport::ReadBoxTable(table.data(), own, kPeer, peer.importer());
  if (!read.ok()) return;
  Require(read->copies.size() == boxes.size(), "each box has a copy");
  for (const kernels::StridedBox& copy : read->copies) {
    MessageBox theirs{
        .dtype = copy.dtype, .dims = copy.dims, .offset = copy.in_offset};
    std::copy_n(copy.counts, copy.dims, theirs.counts);
    std::copy_n(copy.in_strides, copy.dims, theirs.strides);
    int64_t begin = 0, end = 0;
    Require(transport::ReachOf(theirs, &begin, &end), "a copy can be reached");
    const auto* memory = static_cast<const std::byte*>(
        read->memory[static_cast<size_t>(copy.in_memory)]);
    Touch(memory + begin, static_cast<uint64_t>(end - begin));
  }
}

void CheckModes(FuzzInput& input) {
  uint32_t mode = 0;
  input.Copy(&mode, sizeof mode);
  const size_t bytes = input.Number(UINT64_MAX);
  const size_t small = transport::kSmallBytes;
  const absl::Status checked = transport::CheckCopyMode(
      static_cast<transport::CopyMode>(mode), bytes, small, kPeer);
  const bool inline_mode = mode == 1;
  Require(!checked.ok() || inline_mode == (bytes <= small),
          "only what fits a slot is read from it");
}

void CheckHeaders(FuzzInput& input) {
  transport::ControlBlockHeader mine{}, theirs{};
  mine.magic = transport::kControlBlockMagic;
  mine.version = transport::kControlBlockVersion;
  mine.size = 2;
  mine.group = 7;
  mine.bytes = 4096;
  std::vector<std::byte> bytes(64);
  std::memcpy(bytes.data(), static_cast<const void*>(&mine), bytes.size());
  for (int i = input.Below(8); i > 0; --i) {
    bytes[input.Byte() % bytes.size()] = std::byte{input.Byte()};
  }
  std::memcpy(static_cast<void*>(&theirs), bytes.data(), bytes.size());
  const absl::Status sound = transport::CheckControlBlock(theirs, mine, kPeer);
  Require(!sound.ok() || theirs.bytes == mine.bytes,
          "a block of another size is refused");
}

void CheckAnnouncements(FuzzInput& input) {
  transport::Announcement announced{};
  input.Copy(&announced, sizeof announced);
  const transport::Announcement expected{
      .kind = transport::CollectiveKind::kBarrier, .bytes = 64};
  const absl::Status checked =
      transport::CheckAnnouncement(&announced, expected, kPeer);
  Require(!checked.ok() || announced.bytes == expected.bytes,
          "another size is refused");
}

void ReadActivation(FuzzInput& input) {
  ActivationHeader header{};
  input.Copy(header.data(), header.size());
  const auto type = DecodeHeader(header);
  if (!type.ok()) return;
  const auto again = EncodeHeader(*type);
  Require(again.ok() && *again == header, "a header has one form");
}

constexpr void (*kKinds[])(FuzzInput&) = {&ResolveAddresses,   &ReadTable,
                                          &CheckModes,         &CheckHeaders,
                                          &CheckAnnouncements, &ReadActivation};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  FuzzInput input(data, size);
  kKinds[input.Below(static_cast<int>(std::size(kKinds)))](input);
  return 0;
}

// The ShmGroups of all ranks in one process, for tests that play all ranks.

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_SHM_GROUPS_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_SHM_GROUPS_H_

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_group.h"
#include "gtest/gtest.h"

namespace lockstep::transport {

class ShmGroups {
 public:
  explicit ShmGroups(int size, const WaitPolicy& wait_policy = {}) {
    const ControlBlock::Shape shape{
        .size = size,
        .chunk_bytes = 64 * static_cast<size_t>(size),
        .block_bytes = 64};
    for (int rank = 0; rank < size; ++rank) {
      memory_.push_back(
          *Segment::Create(ControlBlock::Bytes(shape), "a control block"));
    }
    std::vector<std::vector<Peer>> peers(size);
    for (int rank = 0; rank < size; ++rank) {
      for (Segment& memory : memory_) peers[rank].push_back(Map(memory, shape));
      for (int other = 0; other < rank; ++other) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends),
                  0);
        peers[rank][other].socket = FileDescriptor(ends[0]);
        peers[other][rank].socket = FileDescriptor(ends[1]);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      books_.push_back(std::make_shared<SegmentRegistry>());
      boards_.push_back(std::make_unique<ShmGroup>(
          ShmGroupMembers{.rank = rank}, std::move(peers[rank]), books_.back(),
          wait_policy));
    }
  }

  int size() const { return static_cast<int>(memory_.size()); }
  ShmGroup& at(int rank) { return *boards_[rank]; }
  std::unique_ptr<ShmGroup> Take(int rank) { return std::move(boards_[rank]); }
  std::shared_ptr<SegmentRegistry> registry(int rank) { return books_[rank]; }

 private:
  static Peer Map(const Segment& memory, const ControlBlock::Shape& shape) {
    Peer peer;
    peer.memory = *Segment::Map(FileDescriptor(dup(memory.fd())),
                                ControlBlock::Bytes(shape));
    peer.control_block = ControlBlock(peer.memory.data(), shape);
    return peer;
  }

  std::vector<Segment> memory_;
  std::vector<std::shared_ptr<SegmentRegistry>> books_;
  std::vector<std::unique_ptr<ShmGroup>> boards_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_SHM_GROUPS_H_

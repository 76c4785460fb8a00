// Two ranks with a tensor each, and a message of boxes from one to the other.
//
//   sender     u8 [rows, 256], of which it sends columns [16, 16 + run)
//   receiver   u8 [rows, 128], which gets them in columns [8, 8 + run)

#ifndef LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_BOX_TENSORS_H_
#define LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_BOX_TENSORS_H_

#include <cstring>
#include <memory>
#include <vector>

#include "client/transport/common/box_message.h"
#include "client/transport/common/collective_op.h"
#include "gtest/gtest.h"
#include "lockstep/arena.h"
#include "tests/client/transport/shm/shm_groups.h"

namespace lockstep::transport {

class BoxTensors {
 public:
  static constexpr int64_t kSenderRow = 256, kReceiverRow = 128;
  static constexpr int64_t kSenderColumn = 16, kReceiverColumn = 8;

  // `boxes`: the rows are divided into as many.
  BoxTensors(int64_t rows, int64_t run, int64_t boxes = 1)
      : rows_(rows), run_(run) {
    std::vector<MessageBox> sent, received;
    std::vector<kernels::StridedBox> packs, unpacks;
    for (int64_t b = 0; b < boxes; ++b) {
      const int64_t first = rows * b / boxes;
      const int64_t count = rows * (b + 1) / boxes - first;
      sent.push_back({.dtype = DType::kU8,
                      .memory = 0,
                      .dims = 2,
                      .offset = first * kSenderRow + kSenderColumn,
                      .counts = {count, run},
                      .strides = {kSenderRow, 1}});
      received.push_back(sent.back());
      received.back().memory = 1;
      received.back().offset = first * kReceiverRow + kReceiverColumn;
      received.back().strides[0] = kReceiverRow;
      packs.push_back({.dtype = DType::kU8,
                       .dims = 2,
                       .in_offset = sent.back().offset,
                       .out_offset = first * run,
                       .counts = {count, run},
                       .in_strides = {kSenderRow, 1},
                       .out_strides = {run, 1}});
      unpacks.push_back({.dtype = DType::kU8,
                         .out_memory = 1,
                         .dims = 2,
                         .in_offset = first * run,
                         .out_offset = received.back().offset,
                         .counts = {count, run},
                         .in_strides = {run, 1},
                         .out_strides = {kReceiverRow, 1}});
    }
    sent_ = MakeBoxMessage(std::move(sent), std::move(packs), bytes());
    received_ =
        MakeBoxMessage(std::move(received), std::move(unpacks), bytes());
    Place(nullptr, nullptr, nullptr);
  }

  int64_t bytes() const { return rows_ * run_; }
  const BoxMessage& sent() const { return sent_; }
  const BoxMessage& received() const { return received_; }

  // Allocates the memory; null: private memory.
  void Place(Arena* tensor, Arena* packed, Arena* receiver) {
    tensor_ = Allocate(tensor, rows_ * kSenderRow);
    packed_ = Allocate(packed, bytes());
    unpacked_ = Allocate(receiver, bytes());
    result_ = Allocate(receiver, rows_ * kReceiverRow);
    for (size_t i = 0; i < tensor_.bytes(); ++i) {
      tensor_.data()[i] = ValueOf(static_cast<int64_t>(i));
    }
    for (ArenaBuffer* buffer : {&packed_, &unpacked_, &result_}) {
      std::memset(buffer->data(), 0xee, buffer->bytes());
    }
    sender_memory_[0] = tensor_.data();
    receiver_memory_[1] = result_.data();
  }

  CollectiveOp Send(uint64_t number = 1) const {
    return {.kind = CollectiveKind::kSend,
            .in = packed_.data(),
            .out = packed_.data(),
            .count = static_cast<size_t>(bytes()),
            .dtype = DType::kU8,
            .peer = 1,
            .boxes = {&sent_, sender_memory_},
            .tag = FirstTag(/*point_to_point=*/true, number)};
  }
  CollectiveOp Receive(uint64_t number = 1) const {
    return {.kind = CollectiveKind::kRecv,
            .out = unpacked_.data(),
            .count = static_cast<size_t>(bytes()),
            .dtype = DType::kU8,
            .peer = 0,
            .boxes = {&received_, receiver_memory_},
            .tag = FirstTag(/*point_to_point=*/true, number)};
  }

  // Whether the receiver has the columns, and nothing else was written.
  bool IsReceived() const {
    for (int64_t i = 0; i < rows_ * kReceiverRow; ++i) {
      const int64_t row = i / kReceiverRow;
      const int64_t column = i % kReceiverRow - kReceiverColumn;
      const bool is_box = column >= 0 && column < run_;
      const std::byte wanted =
          is_box ? ValueOf(row * kSenderRow + kSenderColumn + column)
                 : std::byte{0xee};
      if (result_.data()[i] != wanted) return false;
    }
    return true;
  }
  bool IsPacked() const { return packed_.data()[0] != std::byte{0xee}; }
  bool IsUnpacked() const { return unpacked_.data()[0] != std::byte{0xee}; }

 private:
  static std::byte ValueOf(int64_t i) {
    return static_cast<std::byte>(i * 7 % 199);
  }
  ArenaBuffer Allocate(Arena* arena, int64_t bytes) {
    Arena& from = arena == nullptr ? *private_ : *arena;
    return *from.Allocate(static_cast<size_t>(bytes));
  }

  const int64_t rows_, run_;
  const std::unique_ptr<Arena> private_ = MakePlainArena();
  BoxMessage sent_, received_;
  ArenaBuffer tensor_, packed_, unpacked_, result_;
  void* sender_memory_[1] = {};
  void* receiver_memory_[2] = {};
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_TESTS_CLIENT_TRANSPORT_SHM_BOX_TENSORS_H_

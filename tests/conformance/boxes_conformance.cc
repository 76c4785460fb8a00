// Conformance: messages of boxes, where a transport moves them.

#include <cstring>

#include "client/transport/extended_collectives.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/values.h"

namespace lockstep {
namespace {

using conformance::Draw;
using conformance::Input;
using conformance::Member;
using conformance::Values;
using transport::BoxMessage;

// Columns of a dense f32 tensor: memory 0 of the call.
struct Columns {
  int64_t rows, columns;  // of the tensor
  int64_t first, count;   // columns of the message

  size_t cells() const { return static_cast<size_t>(rows * columns); }
  size_t packed() const { return static_cast<size_t>(rows * count); }

  // Packed by its sender, or unpacked.
  BoxMessage Message(bool is_sent) const {
    const int64_t offset = first * int64_t{sizeof(float)};
    kernels::StridedBox copy{.dtype = DType::kF32,
                             .dims = 2,
                             .in_offset = is_sent ? offset : 0,
                             .out_offset = is_sent ? 0 : offset,
                             .counts = {rows, count},
                             .in_strides = {is_sent ? columns : count, 1},
                             .out_strides = {is_sent ? count : columns, 1}};
    return transport::MakeBoxMessage({{.dtype = DType::kF32,
                                       .dims = 2,
                                       .offset = offset,
                                       .counts = {rows, count},
                                       .strides = {columns, 1}}},
                                     {kernels::Simplified(copy)},
                                     rows * count * int64_t{sizeof(float)});
  }
};

void ExpectColumns(const Member& m, int64_t rows) {
  const Columns sent{rows, 40, 4, 20}, received{rows, 25, 3, 20};
  const BoxMessage out_message = sent.Message(/*is_sent=*/true);
  const BoxMessage in_message = received.Message(/*is_sent=*/false);
  Values in = Input(DType::kF32, sent.cells(), Draw::kWild, 8, m.rank);
  Values out(DType::kF32, received.cells()), expected = out;
  Values packed(DType::kF32, sent.packed()), unpacked = packed;
  void* const in_memory[] = {in.data()};
  void* const out_memory[] = {out.data()};
  const absl::Status called = m.comm.Group([&] {
    absl::Status status = transport::SendBoxes(
        m.comm, packed.data(), {&out_message, in_memory}, m.next(), m.stream);
    if (!status.ok()) return status;
    return transport::RecvBoxes(m.comm, unpacked.data(),
                                {&in_message, out_memory}, m.previous(),
                                m.stream);
  });
  ASSERT_TRUE(called.ok()) << called;
  ASSERT_TRUE(m.stream.Synchronize().ok()) << m.comm.status();
  const Values theirs =
      Input(DType::kF32, sent.cells(), Draw::kWild, 8, m.previous());
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(expected.at(static_cast<size_t>(row * received.columns + 3)),
                theirs.at(static_cast<size_t>(row * sent.columns + 4)),
                20 * sizeof(float));
  }
  EXPECT_TRUE(out == expected) << rows << " rows";
}

TEST_P(CommunicatorConformance, MovesBoxesWhereItSaysSo) {
  Together([&](Member& m) {
    EXPECT_EQ(transport::MovesBoxes(m.comm), promises().moves_boxes);
    if (!promises().moves_boxes) {
      const BoxMessage none;
      EXPECT_TRUE(absl::IsUnimplemented(
          transport::SendBoxes(m.comm, nullptr, {&none}, m.next(), m.stream)));
      EXPECT_TRUE(absl::IsUnimplemented(transport::RecvBoxes(
          m.comm, nullptr, {&none}, m.previous(), m.stream)));
    } else if (m.size > 1) {
      // In a slot; in some blocks; in several steps.
      for (const int64_t rows : {5, 200, 20'000}) ExpectColumns(m, rows);
    }
  });
}

}  // namespace
}  // namespace lockstep

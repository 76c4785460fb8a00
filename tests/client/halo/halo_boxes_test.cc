// Messages of boxes in shared memory: fields of several dimensions, in the
// arena and in private memory, and which of them are packed.

#include <algorithm>
#include <cstring>
#include <ostream>
#include <thread>

#include "client/halo/halo_exchange_impl.h"
#include "client/transport/shm/shm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/job_run.h"
#include "tests/conformance/cases/groups.h"

namespace lockstep {
namespace {

using conformance::Placement;
using halo_model::ExchangeValues;
using halo_model::HaloJob;
using halo_model::JobRun;
using halo_model::RandomHalos;

using MadeTransport = absl::StatusOr<std::unique_ptr<transport::Transport>>;

struct BoxField {
  const char* name;
  Mesh mesh;
  std::vector<HaloTensor> tensors;  // of each rank

  friend void PrintTo(const BoxField& field, std::ostream* os) {
    *os << field.name;
  }
};

HaloTensor Images(DType dtype, std::vector<HaloDim> dims) {
  return {.dtype = dtype, .shape = {2, 3, 8, 40}, .dims = std::move(dims)};
}
HaloDim Cut(int dim, const char* axis, int64_t low, int64_t high,
            HaloEdge edge = HaloEdge::kPeriodic) {
  return {.dim = dim, .axis = axis, .low = low, .high = high, .edge = edge};
}

const Mesh kTwo = {{{"y", 2}}};
const Mesh kFour = {{{"y", 2}, {"x", 2}}};

class HaloBoxesTest : public testing::TestWithParam<BoxField> {
 protected:
  conformance::Groups shm_{
      [](int) -> MadeTransport { return transport::MakeShmTransport(); }};
};

TEST_P(HaloBoxesTest, AreThoseOfThePaddedField) {
  const BoxField& field = GetParam();
  HaloJob job{.mesh = field.mesh};
  job.declared.assign(field.mesh.WorldSize(),
                      {{.name = "h", .tensors = field.tensors}});
  RandomHalos random(7);
  const std::vector<ExchangeValues> values = {random.DrawValues(job, 0)};
  auto run = JobRun::Make(job, shm_);
  ASSERT_TRUE(run.ok()) << run.status();
  for (const Placement placement : {Placement::kPrivate, Placement::kArena}) {
    for (const bool in_place : {false, true}) {
      const auto outputs =
          (*run)->Run({{.in_place = in_place},
                       {.backward = true, .in_place = in_place},
                       {.in_place = in_place}},
                      values, placement);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      SCOPED_TRACE(
          absl::StrCat(in_place ? "in place" : "",
                       placement == Placement::kArena ? ", arena" : ""));
      EXPECT_TRUE((*outputs)[0] == values[0].padded);
      EXPECT_TRUE((*outputs)[1] == values[0].block_gradients);
      EXPECT_TRUE((*outputs)[2] == values[0].padded);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, HaloBoxesTest,
    testing::Values(
        BoxField{"Rows", kTwo, {Images(DType::kF32, {Cut(2, "y", 2, 1)})}},
        BoxField{"Columns", kTwo, {Images(DType::kF32, {Cut(3, "y", 20, 9)})}},
        BoxField{"ShortRuns", kTwo, {Images(DType::kU8, {Cut(3, "y", 7, 30)})}},
        BoxField{"Corners",
                 kFour,
                 {Images(DType::kF64, {Cut(2, "y", 1, 3), Cut(3, "x", 8, 9)})}},
        BoxField{"CornersOfOneRank",
                 kTwo,
                 {Images(DType::kF32, {Cut(2, "y", 2, 2), Cut(3, "", 5, 3)})}},
        BoxField{"SeveralTensors",
                 kTwo,
                 {Images(DType::kF64, {Cut(2, "y", 1, 2)}),
                  Images(DType::kF16, {Cut(3, "y", 33, 32)}),
                  Images(DType::kC128, {Cut(1, "y", 1, 0)})}},
        BoxField{"OneRank",
                 {{{"y", 1}}},
                 {Images(DType::kF32, {Cut(2, "y", 2, 1)})}},
        BoxField{"WiderThanABlock",
                 {{{"y", 3}}},
                 {Images(DType::kF32, {Cut(2, "y", 11, 19)})}},
        BoxField{"WholeField",
                 {{{"y", 3}}},
                 {Images(DType::kF32, {Cut(2, "y", kWholeField, kWholeField,
                                           HaloEdge::kNone)})}},
        // Messages with boxes of one row that is read often.
        BoxField{
            "Replicated",
            {{{"y", 3}}},
            {Images(DType::kF32, {Cut(2, "y", 20, 18, HaloEdge::kReplicate)})}},
        BoxField{
            "Reflected",
            {{{"y", 3}}},
            {Images(DType::kF32, {Cut(2, "y", 12, 11, HaloEdge::kReflect)})}}),
    [](const auto& info) { return info.param.name; });

// Two ranks that exchange rows of [2, 4, 8, 64], one above and one below, and
// the buffers of their messages.
class BoxBuffersTest : public testing::TestWithParam<plan::HaloPass> {
 protected:
  static constexpr size_t kPaddedBytes = 2 * 4 * 10 * 64 * sizeof(float);
  static constexpr size_t kMessageBytes = 2 * 2 * 4 * 64 * sizeof(float);
  static constexpr std::byte kUnwritten{0xa5};

  // The bytes of both buffers that a call writes, with tensors there.
  size_t BytesWritten(Placement placement) {
    const Mesh mesh = kTwo;
    const HaloSpec spec{.name = "rows",
                        .tensors = {{.dtype = DType::kF32,
                                     .shape = {2, 4, 8, 64},
                                     .dims = {Cut(2, "y", 1, 1)}}}};
    const auto group = shm_.Get({0, 1});
    EXPECT_TRUE(group.ok()) << group.status();
    std::vector<std::byte*> buffers;
    std::vector<size_t> sizes;
    std::vector<std::shared_ptr<HaloExchange::Impl>> exchanges;
    std::vector<ArenaBuffer> tensors;
    for (int rank = 0; rank < 2; ++rank) {
      const auto memory = shm_.MemoryOf(rank);
      auto made = halo::MakeExchange(
          mesh, {spec, spec}, *(**group)[rank],
          transport::MakeHostDeviceContext(), [&](size_t bytes) {
            auto buffer = memory->allocate(bytes);
            std::memset(buffer->data(), static_cast<int>(kUnwritten), bytes);
            buffers.push_back(buffer->data());
            sizes.push_back(bytes);
            return buffer;
          });
      EXPECT_TRUE(made.ok()) << made.status();
      exchanges.push_back(*std::move(made));
      tensors.push_back(placement == Placement::kArena
                            ? *memory->allocate(kPaddedBytes)
                            : *private_->Allocate(kPaddedBytes));
      std::memset(tensors.back().data(), 1 + rank, kPaddedBytes);
    }
    std::thread ranks[2];
    for (int rank = 0; rank < 2; ++rank) {
      ranks[rank] = std::thread([&, rank] {
        const absl::Status ran = exchanges[rank]->RunAndWait(
            GetParam(),
            {.padded = {tensors[rank].data()}, .blocks = {nullptr}});
        EXPECT_TRUE(ran.ok()) << ran;
      });
    }
    for (std::thread& rank : ranks) rank.join();
    size_t written = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      written += sizes[i] - static_cast<size_t>(std::count(
                                buffers[i], buffers[i] + sizes[i], kUnwritten));
    }
    // A halo row of rank 0 has the bytes of rank 1.
    if (GetParam() == plan::HaloPass::kForward) {
      EXPECT_EQ(tensors[0].data()[0], std::byte{2});
      EXPECT_EQ(tensors[1].data()[kPaddedBytes - 1], std::byte{1});
    }
    return written;
  }

  const std::unique_ptr<Arena> private_ = MakePlainArena();
  conformance::Groups shm_{
      [](int) -> MadeTransport { return transport::MakeShmTransport(); }};
};

TEST_P(BoxBuffersTest, AreForWhatCannotBeReadInPlace) {
  // Private rows are packed. Gradients are received into a buffer, and added
  // from there.
  const size_t received =
      GetParam() == plan::HaloPass::kForward ? 0 : 2 * kMessageBytes;
  EXPECT_EQ(BytesWritten(Placement::kPrivate), 2 * kMessageBytes + received);
  EXPECT_EQ(BytesWritten(Placement::kArena), received);
}

INSTANTIATE_TEST_SUITE_P(Passes, BoxBuffersTest,
                         testing::Values(plan::HaloPass::kForward,
                                         plan::HaloPass::kAdjoint),
                         [](const auto& pass) {
                           return pass.param == plan::HaloPass::kForward
                                      ? "Forward"
                                      : "Adjoint";
                         });

}  // namespace
}  // namespace lockstep

// The device's step gate leaves the memory that its twin leaves: control, loss
// scale, journal, scalars, records and summaries of tiles, bit for bit, for
// whole and damaged records and summaries.

#include "kernels/device/step_gate.h"

#include <cuda_runtime.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"
#include "tests/kernels/step_gates.h"

namespace lockstep::kernels {
namespace {

// PinnedMemory memory, which the device accesses at the same address.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes) {
    gpu::Require(cudaHostAlloc(&memory_, bytes, cudaHostAllocMapped),
                 "cudaHostAlloc");
    std::memset(memory_, 0, bytes);
  }
  ~PinnedMemory() { cudaFreeHost(memory_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

// One rank's memory on the device, and beside it the twin's on the host.
class StepGatePair {
 public:
  explicit StepGatePair(const GateContext& shape, bool scales_loss = false)
      : shape_(shape),
        twin_(shape.world, shape.depth),
        inputs_(shape.depth * sizeof(StepRecord)),
        journal_(shape.depth * StepEntryBytes(shape.world)),
        stop_(sizeof(uint32_t)),
        control_(std::vector{StepControl{}}),
        norm_(std::vector{FiniteCheck{}}),
        record_(std::vector{StepRecord{}}),
        scalars_(std::vector{VerdictScalars{}}),
        tiles_(std::vector<TileSummary>(TilesOf(shape.world))),
        loss_scale_(std::vector{LossScale{}}) {
    twin_.scales_loss = scales_loss;
  }

  GateMemory& twin() { return twin_; }
  GateContext host() { return twin_.ContextOf(shape_); }
  GateContext device() {
    GateContext context = shape_;
    context.control = control_.data();
    context.stop = stop_.as<uint32_t>();
    context.inputs = inputs_.as<StepRecord>();
    context.journal = journal_.as<void>();
    if (twin_.scales_loss) context.loss_scale = loss_scale_.data();
    if (HasTiles(shape_.world)) context.tiles = tiles_.data();
    return context;
  }

  void SetInput(uint64_t step, StepRecord input) {
    SealStepInput(host(), step, &input);
    twin_.inputs[step % shape_.depth] = input;
    inputs_.as<StepRecord>()[step % shape_.depth] = input;
  }
  void Stop() { twin_.stop = *stop_.as<uint32_t>() = 1; }
  void SetNorm(const FiniteCheck& norm) {
    twin_.norm = norm;
    gpu::Require(
        cudaMemcpy(norm_.data(), &norm, sizeof norm, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }

  // Both write the record; they must be equal. Returns it.
  StepRecord Write() {
    StepRecord want;
    WriteStepRecord(host(), &twin_.norm, &want);
    gpu::Require(device::WriteStepRecord(device(), norm_.data(), record_.data(),
                                         nullptr),
                 "WriteStepRecord");
    gpu::Synchronize();
    EXPECT_EQ(std::memcmp(record_.Values().data(), &want, sizeof want), 0);
    EXPECT_EQ(norm_.Values()[0].sum_of_squares, 0);
    EXPECT_EQ(norm_.Values()[0].non_finite, 0u);
    return want;
  }

  // Both decide by the records; memory must be equal. Returns whether they
  // commit. `damage` changes the summaries of tiles before.
  bool Gate(const std::vector<StepRecord>& records,
            const std::function<void(std::vector<TileSummary>*)>& damage = {}) {
    const gpu::Row<StepRecord> gathered(records);
    const int own = shape_.rank;
    if (HasTiles(shape_.world)) VerifyTilesOf(records, gathered.data(), damage);
    GateStep(host(), &records[own], records.data(), &twin_.scalars);
    gpu::Require(device::GateStep(device(), gathered.data() + own,
                                  gathered.data(), scalars_.data(), nullptr),
                 "GateStep");
    gpu::Synchronize();
    const StepControl control = control_.Values()[0];
    EXPECT_EQ(std::memcmp(&control, &twin_.control, sizeof control), 0);
    EXPECT_EQ(loss_scale_.Values()[0], twin_.loss_scale);
    const VerdictScalars scalars = scalars_.Values()[0];
    EXPECT_EQ(std::memcmp(&scalars, &twin_.scalars, sizeof scalars), 0);
    EXPECT_EQ(std::memcmp(journal_.as<void>(), twin_.journal.data(),
                          twin_.journal.size() * sizeof(uint64_t)),
              0);
    EXPECT_NE(FindStepEntry(device(), control.entries - 1), nullptr);
    return scalars.commit == 1;
  }

 private:
  void VerifyTilesOf(
      const std::vector<StepRecord>& records, const StepRecord* gathered,
      const std::function<void(std::vector<TileSummary>*)>& damage) {
    VerifyTiles(host(), records.data());
    gpu::Require(device::VerifyTiles(device(), gathered, nullptr),
                 "VerifyTiles");
    gpu::Synchronize();
    std::vector<TileSummary>& tiles = twin_.tiles;
    const size_t bytes = tiles.size() * sizeof(TileSummary);
    EXPECT_EQ(std::memcmp(tiles_.Values().data(), tiles.data(), bytes), 0);
    if (!damage) return;
    damage(&tiles);
    gpu::Require(
        cudaMemcpy(tiles_.data(), tiles.data(), bytes, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }

  const GateContext shape_;
  GateMemory twin_;
  PinnedMemory inputs_, journal_, stop_;
  gpu::Row<StepControl> control_;
  gpu::Row<FiniteCheck> norm_;
  gpu::Row<StepRecord> record_;
  gpu::Row<VerdictScalars> scalars_;
  gpu::Row<TileSummary> tiles_;
  gpu::Row<LossScale> loss_scale_;
};

TEST(DeviceStepGateTest, WritesTheRecordsOfItsTwin) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    StepGatePair pair({.epoch = random(), .revision = random() % 9, .rank = 4},
                      /*scales_loss=*/round % 2 == 0);
    pair.SetInput(0, RandomInput(random, random()));
    if (round % 3 == 1) pair.SetInput(4, RandomInput(random, random()));
    if (round % 3 == 2) pair.Stop();
    pair.SetNorm(
        {.sum_of_squares = 1.0 / (round + 3), .non_finite = random() % 100});
    const StepRecord record = pair.Write();
    EXPECT_EQ(IsValid(record, 4, StepRecordId(pair.host(), {})),
              round % 3 == 0);
  }
}

TEST(DeviceStepGateTest, DecidesAsItsTwin) {
  for (const int world : {1, 2, 31, 255, 256, 257, 600, 1024, 4096}) {
    for (uint64_t seed = 0; seed < 2 * kFaults; ++seed) {
      std::mt19937_64 random(seed);
      StepGatePair pair(
          {.epoch = 3,
           .revision = 1,
           .world = world,
           .more_data_min = seed % 2 == 0 ? world : 0,
           .loss_scale_rule = {.growth_factor = 1.1, .growth_interval = 2}},
          /*scales_loss=*/seed % 3 != 0);
      bool alive = true;
      for (uint64_t step = 0; alive && step < 6; ++step) {
        const StepControl at = pair.twin().control;
        auto records = RandomRecords(random, pair.host(), at);
        const auto fault = static_cast<Fault>(step == 4 ? seed % kFaults : 0);
        if (fault != Fault::kTerms || world > 1) {
          Damage(random, pair.host(), at, fault, &records);
        }
        const bool committed = pair.Gate(records);
        alive = !testing::Test::HasFailure();
        const bool damaged =
            fault != Fault::kNone && (fault != Fault::kTerms || world > 1);
        EXPECT_FALSE(damaged && committed)
            << "world " << world << ", seed " << seed;
      }
    }
  }
}

TEST(DeviceStepGateTest, RefusesSummariesAsItsTwin) {
  // The last has more tiles than a block reads at the same time.
  for (const int world : {257, 600, 1024, 4096, 40 * kGateTile + 1}) {
    for (uint64_t seed = 0; seed < 2 * kTileFaults; ++seed) {
      std::mt19937_64 random(seed);
      StepGatePair pair({.epoch = 3, .revision = 1, .world = world});
      for (uint64_t step = 0; step < 3; ++step) {
        const StepControl at = pair.twin().control;
        const auto records = RandomRecords(random, pair.host(), at);
        const auto fault =
            static_cast<TileFault>(step == 1 ? seed % kTileFaults : 0);
        const bool committed = pair.Gate(records, [&](auto* tiles) {
          DamageTile(random, pair.host(), at, fault, tiles);
        });
        const bool damaged = step > 0 && seed % kTileFaults != 0;
        EXPECT_EQ(committed, !damaged)
            << "world " << world << ", seed " << seed;
      }
    }
  }
}

TEST(DeviceStepGateTest, VerifiesRankZerosRecordBehindItsTile) {
  for (const int world : {257, 4096}) {
    std::mt19937_64 random(world);
    StepGatePair pair({.epoch = 3, .revision = 1, .world = world});
    auto records = RandomRecords(random, pair.host(), {});
    records[0].inverse_scale *= 2;
    EXPECT_FALSE(pair.Gate(records, [&](auto* tiles) {
      // As of a valid record.
      RecordCounts counts = (*tiles)[0].counts;
      counts.invalid_rank = counts.differing_rank = world;
      (*tiles)[0] = SummaryOf(counts, 0, StepRecordId(pair.host(), {}));
    }));
    EXPECT_EQ(pair.twin().control.failed, 1u);
  }
}

class DeviceStepGateOfRanksTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceStepGateOfRanksTest,
                         testing::Values(64, 600, 4096));

// The host reads the journal while gates run.
TEST_P(DeviceStepGateOfRanksTest, TheHostSeesWholeEntriesWhileGatesRun) {
  const int world = GetParam();
  constexpr uint64_t kSteps = 2000;
  StepGatePair pair({.epoch = 3, .revision = 1, .world = world, .depth = 4});
  std::mt19937_64 random(9);
  const auto records = RandomRecords(random, pair.host(), {});
  const gpu::Row<StepRecord> gathered(records);
  const GateContext context = pair.device();
  const gpu::Row<VerdictScalars> scalars(std::vector{VerdictScalars{}});
  uint64_t seen = 0, outcomes = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (HasTiles(world)) {
      gpu::Require(device::VerifyTiles(context, gathered.data(), nullptr),
                   "VerifyTiles");
    }
    gpu::Require(device::GateStep(context, gathered.data(), gathered.data(),
                                  scalars.data(), nullptr),
                 "GateStep");
    // At most two steps ahead of the host, as a trainer is.
    while (seen + 2 <= step) {
      const StepEntry* const entry = FindStepEntry(context, seen);
      if (entry == nullptr) continue;
      // The records are those of step 0: every later one is stale.
      outcomes += entry->outcome == StepOutcome::kCommitted ? 1 : 0;
      EXPECT_EQ(entry->records()[world - 1], records[world - 1]);
      ++seen;
    }
  }
  gpu::Synchronize();
  EXPECT_EQ(outcomes, 1u);
}

}  // namespace
}  // namespace lockstep::kernels

#include "kernels/gate_tiles.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/step_gates.h"

namespace lockstep::kernels {
namespace {

constexpr int kWorlds[] = {1, 2, 255, 256, 257, 600, 1024, 4096};
constexpr int kTiledWorlds[] = {257, 600, 1024, 4096};
constexpr StepControl kNow = {.step = 5, .sequence = 6, .entries = 6};

// One rank of a job in launch 6, of step 5.
class TiledGate {
 public:
  explicit TiledGate(int world, bool scales_loss = false)
      : shape_{.epoch = 7,
               .revision = 2,
               .rank = world / 2,
               .world = world,
               .more_data_min = world,
               .loss_scale_rule = {.growth_interval = 2}},
        memory_(world, shape_.depth) {
    memory_.control = kNow;
    memory_.scales_loss = scales_loss;
    memory_.scalars.commit = 1;
  }

  GateContext context() { return memory_.ContextOf(shape_); }
  GateMemory& memory() { return memory_; }
  std::vector<TileSummary>& tiles() { return memory_.tiles; }

  void Verify(const std::vector<StepRecord>& records) {
    if (HasTiles(shape_.world)) VerifyTiles(context(), records.data());
  }
  bool Decide(const std::vector<StepRecord>& records) {
    GateStep(context(), &records[shape_.rank], records.data(),
             &memory_.scalars);
    return memory_.scalars.commit != 0;
  }
  bool Gate(const std::vector<StepRecord>& records) {
    Verify(records);
    return Decide(records);
  }
  const StepEntry* entry(uint64_t sequence = kNow.sequence) {
    return FindStepEntry(context(), sequence);
  }

 private:
  const GateContext shape_;
  GateMemory memory_;
};

// In the order that gate_tiles.h states.
template <class T>
double SumOf(const std::vector<StepRecord>& records, T StepRecord::*field) {
  double all = 0;
  for (size_t begin = 0; begin < records.size(); begin += 256) {
    double tile = 0;
    for (size_t rank = begin; rank < begin + 256; ++rank) {
      if (rank < records.size()) tile += records[rank].*field;
    }
    all += tile;
  }
  return all;
}

// What a gate finds that verifies one record after the other.
StepEntry Obvious(const GateContext& context,
                  const std::vector<StepRecord>& records) {
  const auto world = static_cast<uint64_t>(context.world);
  const uint64_t id = StepRecordId(context, kNow);
  StepEntry entry{
      .step = kNow.step, .invalid_rank = world, .differing_rank = world};
  for (uint64_t i = world; i > 0; --i) {
    const StepRecord& record = records[i - 1];
    const int rank = static_cast<int>(i - 1);
    if (!IsValid(record, rank, id)) entry.invalid_rank = i - 1;
    if (!SameTerms(record, records[0])) entry.differing_rank = i - 1;
    entry.non_finite += record.non_finite;
    entry.with_more_data += (record.flags & StepRecord::kMoreData) != 0;
  }
  entry.norm_squared = SumOf(records, &StepRecord::norm_squared);
  entry.samples = SumOf(records, &StepRecord::samples);
  entry.contributed = IsValid(records[context.rank], context.rank, id);
  if (entry.invalid_rank == world && entry.differing_rank == world) {
    entry.outcome = StepOutcome::kCommitted;
  }
  return entry;
}

std::string BytesOf(double value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void ExpectEntry(const StepEntry& got, const StepEntry& want) {
  EXPECT_EQ(got.step, want.step);
  EXPECT_EQ(got.outcome, want.outcome);
  EXPECT_EQ(got.invalid_rank, want.invalid_rank);
  EXPECT_EQ(got.differing_rank, want.differing_rank);
  EXPECT_EQ(BytesOf(got.norm_squared), BytesOf(want.norm_squared));
  EXPECT_EQ(BytesOf(got.samples), BytesOf(want.samples));
  EXPECT_EQ(got.non_finite, want.non_finite);
  EXPECT_EQ(got.with_more_data, want.with_more_data);
  EXPECT_EQ(got.contributed, want.contributed);
}

std::string In(int world, uint64_t seed) {
  return "world " + std::to_string(world) + ", seed " + std::to_string(seed);
}

TEST(GateTilesTest, EveryRankIsInOneTile) {
  for (int world = 1; world < 1100; ++world) {
    int next = 0;
    for (int tile = 0; tile < TilesOf(world); ++tile) {
      const GateTile ranks = TileAt(tile, world);
      ASSERT_EQ(ranks.begin, next) << world;
      ASSERT_GT(ranks.end, ranks.begin) << world;
      ASSERT_LE(ranks.end - ranks.begin, kGateTile) << world;
      next = ranks.end;
    }
    ASSERT_EQ(next, world);
    ASSERT_EQ(HasTiles(world), TilesOf(world) > 1) << world;
  }
}

TEST(GateTilesTest, DecidesAsAGateThatVerifiesOneRecordAfterTheOther) {
  for (const int world : kWorlds) {
    for (uint64_t seed = 0; seed < 2 * kFaults; ++seed) {
      SCOPED_TRACE(In(world, seed));
      std::mt19937_64 random(seed);
      TiledGate gate(world, /*scales_loss=*/seed % 3 == 0);
      auto records = RandomRecords(random, gate.context(), kNow);
      const auto fault = static_cast<Fault>(seed % kFaults);
      Damage(random, gate.context(), kNow, fault, &records);
      const StepEntry want = Obvious(gate.context(), records);
      const LossScale scale = gate.memory().loss_scale;
      const bool commits = want.outcome == StepOutcome::kCommitted;
      EXPECT_EQ(gate.Gate(records), commits);
      const StepEntry* const entry = gate.entry();
      ASSERT_NE(entry, nullptr);
      ExpectEntry(*entry, want);
      EXPECT_EQ(std::memcmp(entry->records(), records.data(),
                            records.size() * sizeof(StepRecord)),
                0);
      const StepControl& control = gate.memory().control;
      EXPECT_EQ(control.step, kNow.step + (commits ? 1 : 0));
      EXPECT_EQ(control.sequence, kNow.sequence + 1);
      EXPECT_EQ(control.failed, commits ? 0u : 1u);
      const VerdictScalars scalars = ScalarsOf(want, records[0]);
      EXPECT_EQ(std::memcmp(&scalars, &gate.memory().scalars, sizeof scalars),
                0);
      const bool changes = commits && seed % 3 == 0;
      EXPECT_EQ(gate.memory().loss_scale != scale, changes);
    }
  }
}

// Also without memory for summaries.
TEST(GateTilesTest, ATileIsDecidedByOneKernel) {
  for (const int world : {1, 2, 255, 256}) {
    std::mt19937_64 random(world);
    TiledGate gate(world);
    const auto records = RandomRecords(random, gate.context(), kNow);
    EXPECT_EQ(gate.context().tiles, nullptr);
    EXPECT_TRUE(gate.Gate(records)) << world;
  }
}

// --- The order of sums -------------------------------------------------------

// 2^53 + 1 rounds to 2^53, so each order has a sum of its own.
TEST(GateTilesTest, NormsAreAddedInRankOrderInsideATileAndTilesInOrder) {
  for (const int world : kWorlds) {
    std::mt19937_64 random(1);
    TiledGate gate(world);
    auto records = RandomRecords(random, gate.context(), kNow);
    for (int rank = 0; rank < world; ++rank) {
      records[rank].norm_squared = rank == 0 ? 0x1p53 : 1;
      records[rank].samples = rank + 1 == world ? 0x1p53 : 1;
      records[rank].checksum = ChecksumOf(records[rank], rank);
    }
    ASSERT_TRUE(gate.Gate(records));
    // Inside the first tile no 1 has an effect; those of others are added up
    // before.
    const double others = world > 256 ? world - 256 : 0;
    EXPECT_EQ(gate.entry()->norm_squared, 0x1p53 + others) << world;
    // The last rank's comes behind the others of its tile, and that tile last.
    const double before = world - 1;
    const double last = (world - 1) % 256;
    EXPECT_EQ(gate.entry()->samples, (before - last) + (last + 0x1p53))
        << world;
  }
}

TEST(GateTilesTest, TheHostThatReadsTheJournalAddsInTheOrderOfTheGate) {
  for (const int world : kWorlds) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(In(world, seed));
      std::mt19937_64 random(seed);
      TiledGate gate(world);
      const auto records = RandomRecords(random, gate.context(), kNow);
      ASSERT_TRUE(gate.Gate(records));
      const StepEntry& entry = *gate.entry();
      const auto sum_of = [&](double StepRecord::*field) {
        return SumInTiles<double>(
            world, [&](int rank) { return entry.records()[rank].*field; },
            [](double* sum, double value) { *sum += value; });
      };
      const double norm = sum_of(&StepRecord::norm_squared);
      const double samples = sum_of(&StepRecord::samples);
      EXPECT_EQ(BytesOf(norm), BytesOf(entry.norm_squared));
      EXPECT_EQ(BytesOf(samples), BytesOf(gate.memory().scalars.samples));
    }
  }
}

// --- Damaged records ---------------------------------------------------------

// The first and the last rank of every tile, and one between.
std::vector<int> SomeOfEachTile(std::mt19937_64& random, int world) {
  std::vector<int> some;
  for (int tile = 0; tile < TilesOf(world); ++tile) {
    const GateTile ranks = TileAt(tile, world);
    const int count = ranks.end - ranks.begin;
    some.push_back(ranks.begin);
    some.push_back(ranks.begin + static_cast<int>(random() % count));
    some.push_back(ranks.end - 1);
  }
  return some;
}

TEST(GateTilesTest, FindsTheLowestInvalidRankInAnyTile) {
  for (const int world : kWorlds) {
    std::mt19937_64 random(world);
    for (const int rank : SomeOfEachTile(random, world)) {
      TiledGate gate(world);
      auto records = RandomRecords(random, gate.context(), kNow);
      records[rank].checksum ^= 1;
      // Any number of higher ones change nothing.
      for (int later = rank + 1; later < world; ++later) {
        if (random() % 100 == 0) Invalidate(&records[later]);
      }
      EXPECT_FALSE(gate.Gate(records));
      ASSERT_NE(gate.entry(), nullptr);
      EXPECT_EQ(gate.entry()->invalid_rank, static_cast<uint64_t>(rank))
          << "seed " << world;
    }
  }
}

TEST(GateTilesTest, FindsTheLowestDifferingRankInAnyTile) {
  for (const int world : kWorlds) {
    std::mt19937_64 random(world);
    for (const int rank : SomeOfEachTile(random, world)) {
      if (rank == 0) continue;  // the others differ from it
      TiledGate gate(world);
      auto records = RandomRecords(random, gate.context(), kNow);
      for (int later = rank; later < world; ++later) {
        if (later > rank && random() % 100 != 0) continue;
        records[later].max_norm += 1;
        records[later].checksum = ChecksumOf(records[later], later);
      }
      EXPECT_FALSE(gate.Gate(records));
      ASSERT_NE(gate.entry(), nullptr);
      EXPECT_EQ(gate.entry()->differing_rank, static_cast<uint64_t>(rank))
          << "seed " << world;
      EXPECT_EQ(gate.entry()->invalid_rank, static_cast<uint64_t>(world));
    }
  }
}

// --- Damaged summaries -------------------------------------------------------

// What is wrong, in words, if a gate decides by a damaged summary. The gate
// `takes_any_tile`: it finds every summary valid, whatever is there.
std::string DecideByDamage(int world, uint64_t seed, bool takes_any_tile) {
  std::mt19937_64 random(seed);
  TiledGate gate(world);
  const GateContext context = gate.context();
  const auto records = RandomRecords(random, context, kNow);
  gate.Verify(records);
  const auto fault =
      static_cast<TileFault>(1 + seed % static_cast<uint64_t>(kTileFaults - 1));
  const int damaged = DamageTile(random, context, kNow, fault, &gate.tiles());
  if (takes_any_tile) {
    for (int tile = 0; tile < TilesOf(world); ++tile) {
      TileSummary& summary = gate.tiles()[tile];
      summary = SummaryOf(summary.counts, tile, StepRecordId(context, kNow));
    }
  }
  if (gate.Decide(records)) return "a step with a damaged summary passed";
  if (gate.memory().control.failed == 0) return "a later step may pass";
  const StepEntry* const entry = gate.entry();
  if (entry == nullptr) return "the journal has no entry";
  if (entry->outcome != StepOutcome::kFailed) return "the entry has not failed";
  if (entry->contributed != 1) return "this rank has contributed";
  const auto first = static_cast<uint64_t>(TileAt(damaged, world).begin);
  if (entry->invalid_rank != first) return "another rank is invalid";
  if (std::memcmp(entry->records(), records.data(),
                  records.size() * sizeof(StepRecord)) != 0) {
    return "the journal has other records";
  }
  return "";
}

TEST(GateTilesTest, NoDamagedSummaryPassesAndTheJournalIsComplete) {
  for (const int world : kTiledWorlds) {
    for (uint64_t seed = 0; seed < 10 * (kTileFaults - 1); ++seed) {
      EXPECT_EQ(DecideByDamage(world, seed, false), "") << In(world, seed);
    }
  }
}

TEST(GateTilesTest, AGateThatTakesAnySummaryIsNoticed) {
  for (const int world : kTiledWorlds) {
    for (uint64_t seed = 0; seed < kTileFaults - 1; ++seed) {
      EXPECT_NE(DecideByDamage(world, seed, true), "") << In(world, seed);
    }
  }
}

// A launch whose VerifyTiles did not run finds the summaries of the one before.
TEST(GateTilesTest, SummariesOfTheLaunchBeforeAreRefused) {
  for (const int world : kTiledWorlds) {
    std::mt19937_64 random(world);
    TiledGate gate(world);
    const auto first = RandomRecords(random, gate.context(), kNow);
    ASSERT_TRUE(gate.Gate(first));
    const StepControl next = gate.memory().control;
    const auto second = RandomRecords(random, gate.context(), next);
    EXPECT_FALSE(gate.Decide(second)) << "seed " << world;
    const StepEntry* const entry = gate.entry(next.sequence);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->invalid_rank, 0u);
    EXPECT_EQ(entry->records()[world - 1], second[world - 1]);
    EXPECT_EQ(gate.memory().control.step, next.step);
  }
}

// The terms are those of rank 0's record, which may change behind VerifyTiles.
TEST(GateTilesTest, RankZerosRecordIsVerifiedWhereItsTermsAreUsed) {
  for (const int world : kTiledWorlds) {
    std::mt19937_64 random(world);
    TiledGate gate(world);
    auto records = RandomRecords(random, gate.context(), kNow);
    gate.Verify(records);
    records[0].inverse_scale *= 2;
    EXPECT_FALSE(gate.Decide(records)) << "seed " << world;
    ASSERT_NE(gate.entry(), nullptr);
    EXPECT_EQ(gate.entry()->invalid_rank, 0u);
  }
}

}  // namespace
}  // namespace lockstep::kernels

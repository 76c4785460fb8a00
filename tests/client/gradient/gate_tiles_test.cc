// A rank's step gate in jobs of many ranks, alone on a fake GPU: the other
// ranks' records are copied to where they would be gathered. The host that
// reads the journal has the bits of the device, and a summary of a tile that is
// not of the launch passes no step.

#include "kernels/gate_tiles.h"

#include <bit>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/gradient/step_gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::gradient {
namespace {

using kernels::StepRecord;
using kernels::TileSummary;
using KernelQueue = transport::DeviceContext::KernelQueue;

constexpr uint64_t kFirstStep = 3;
constexpr Revision kRevision = {2};
constexpr double kMaxNorm = 1e-5;  // below every norm
constexpr UpdateTerms kTerms = {
    .inverse_scale = 0.25, .per_sample = true, .max_norm = kMaxNorm};

struct TileDamage {
  enum class Kind {
    kNone,
    kLost,   // VerifyTiles does not run
    kTorn,   // a bit of a summary changes
    kMoved,  // summaries of two tiles change places
  };
  Kind kind = Kind::kNone;
  uint64_t launch = 0;
  // The mistake: the gate finds every summary valid, whatever is there.
  bool takes_any_summary = false;
};

class DamagedTiles final : public fake::ForwardingKernels {
 public:
  // `memory_end`: where the gate's memory ends.
  DamagedTiles(std::shared_ptr<KernelApi> inner, fake::FakeGpus* gpus,
               const std::byte* const* memory_end, const TileDamage& damage,
               uint64_t seed)
      : ForwardingKernels(std::move(inner)),
        gpus_(*gpus),
        memory_end_(*memory_end),
        damage_(damage),
        seed_(seed) {}

  Result VerifyTiles(const kernels::GateContext& context,
                     const StepRecord* records, StreamHandle stream) override {
    using Kind = TileDamage::Kind;
    const bool is_step = kernels::HasTiles(context.world);  // no first launch
    if (is_step) {
      const auto* const end = reinterpret_cast<const std::byte*>(
          context.tiles + kernels::TilesOf(context.world));
      EXPECT_LE(end, memory_end_) << "world " << context.world;
    }
    const bool damages = is_step && launches_++ == damage_.launch;
    if (damages && damage_.kind == Kind::kLost) return Result::kSuccess;
    const Result launched =
        ForwardingKernels::VerifyTiles(context, records, stream);
    if (!damages || damage_.kind == Kind::kNone) return launched;
    TileSummary* const tiles = gpus_.Reach(context.tiles);
    const uint64_t first = seed_ % kernels::TilesOf(context.world);
    const uint64_t second = (first + 1) % kernels::TilesOf(context.world);
    gpus_.LaunchKernel(stream, [=, kind = damage_.kind, seed = seed_] {
      if (kind == Kind::kMoved) return std::swap(tiles[first], tiles[second]);
      auto* const words = reinterpret_cast<kernels::RecordWord*>(&tiles[first]);
      constexpr size_t kWords = sizeof(TileSummary) / sizeof(uint64_t);
      words[seed % kWords] ^= uint64_t{1} << seed % 61;
    });
    return launched;
  }
  Result GateStep(const kernels::GateContext& context, const StepRecord* own,
                  const StepRecord* records, VerdictScalars* scalars,
                  StreamHandle stream) override {
    if (damage_.takes_any_summary && kernels::HasTiles(context.world)) {
      const auto* const control = gpus_.Reach(context.control);
      TileSummary* const tiles = gpus_.Reach(context.tiles);
      gpus_.LaunchKernel(stream, [=] {
        const uint64_t id = kernels::StepRecordId(context, *control);
        for (int tile = 0; tile < kernels::TilesOf(context.world); ++tile) {
          tiles[tile] = kernels::SummaryOf(tiles[tile].counts, tile, id);
        }
      });
    }
    return ForwardingKernels::GateStep(context, own, records, scalars, stream);
  }

 private:
  fake::FakeGpus& gpus_;
  const std::byte* const& memory_end_;
  const TileDamage damage_;
  const uint64_t seed_;
  uint64_t launches_ = 0;
};

// The rank in the middle of the job.
class LoneRank {
 public:
  LoneRank(int world, uint64_t seed, const TileDamage& damage = {})
      : ranks_(world),
        own_(world / 2),
        random_(seed),
        gpus_({.seed = seed},
              [this, damage, seed](int, transport::nccl::Tables* tables) {
                tables->kernels = std::make_shared<DamagedTiles>(
                    tables->kernels, &gpus_.gpus(), &memory_end_, damage, seed);
              }),
        compute_(*gpus_.at(0).MakeDeviceContext()),
        arena_(gpus_.at(0).MakeArena()),
        staging_(*compute_->AllocateStaging(world * sizeof(StepRecord))),
        scalars_(*compute_->AllocateStaging(sizeof(VerdictScalars))),
        gate_(*StepGate::Create(
            {.epoch = {7},
             .first_step = kFirstStep,
             .rank = own_,
             .world = world},
            *compute_, [this](size_t bytes) { return Allocate(bytes); })) {}
  ~LoneRank() { EXPECT_THAT(gpus_.gpus().violations(), testing::IsEmpty()); }

  // Gathers random records of the step after `launch` steps, that of `damaged`
  // not valid, and decides. Returns the scalars.
  VerdictScalars Run(uint64_t launch, int damaged = -1) {
    GatherInStaging(launch, damaged);
    const double samples = Random();
    gate_->Seal(launch, kRevision, {.samples = samples, .terms = kTerms});
    const absl::Status ran =
        compute_->Perform(nullptr, [&](KernelQueue& queue) {
          StepRecord* const records = gate_->records();
          gate_->WriteRecord(queue, gate_->ContextOf(kRevision));
          queue.Copy(staging_.data(), records, ranks_ * sizeof(StepRecord));
          queue.Copy(gate_->own_record(), records + own_, sizeof(StepRecord));
          gate_->Decide(queue, gate_->ContextOf(kRevision),
                        gate_->ScalarsOf(launch));
          queue.Copy(gate_->ScalarsOf(launch), scalars_.data(),
                     sizeof(VerdictScalars));
          return queue.Done().Wait(absl::Seconds(30));
        });
    EXPECT_TRUE(ran.ok()) << ran;
    return scalars_.as<VerdictScalars>()[0];
  }

  StepId StepIdOf(uint64_t launch) const {
    return {.epoch = {7}, .revision = kRevision, .step = kFirstStep + launch};
  }
  std::optional<StepGate::Outcome> Find(uint64_t launch) const {
    return gate_->Find(launch, StepIdOf(launch));
  }

 private:
  double Random() {
    return std::uniform_real_distribution<double>(0, 100)(random_);
  }

  void GatherInStaging(uint64_t launch, int damaged) {
    const StepId step_id = StepIdOf(launch);
    const uint64_t id = kernels::StepRecordId(
        {.epoch = step_id.epoch.value, .revision = step_id.revision.value},
        {.step = step_id.step, .sequence = launch});
    for (int rank = 0; rank < ranks_; ++rank) {
      StepRecord record{.id = id,
                        .norm_squared = Random(),
                        .samples = Random(),
                        .flags = StepRecord::kMoreData |
                                 StepRecord::kPerSample |
                                 StepRecord::kHasMaxNorm,
                        .inverse_scale = kTerms.inverse_scale,
                        .max_norm = kMaxNorm,
                        .step_seconds = Random()};
      record.checksum = kernels::ChecksumOf(record, rank);
      if (rank == damaged) kernels::Invalidate(&record);
      staging_.as<StepRecord>()[rank] = record;
    }
  }

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) {
    auto memory = arena_->Allocate(bytes);
    if (memory.ok()) memory_end_ = memory->data() + bytes;
    return memory;
  }

  const int ranks_;
  const int own_;
  const std::byte* memory_end_ = nullptr;
  std::mt19937_64 random_;
  fake::FakeGpuWorld gpus_;
  const std::unique_ptr<transport::DeviceContext> compute_;
  const std::unique_ptr<Arena> arena_;
  const ArenaBuffer staging_;  // records
  const ArenaBuffer scalars_;
  const std::unique_ptr<StepGate> gate_;
};

std::string With(int world, uint64_t seed) {
  return "world " + std::to_string(world) + ", seed " + std::to_string(seed);
}

TEST(GateTilesTest, TheVerdictHasTheBitsOfTheDevicesScalars) {
  for (const int world : {2, 255, 256, 257, 600, 1024, 4096}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(With(world, seed));
      LoneRank rank(world, seed);
      for (uint64_t launch = 0; launch < 3; ++launch) {
        const VerdictScalars scalars = rank.Run(launch);
        EXPECT_EQ(scalars.commit, 1);
        const auto outcome = rank.Find(launch);
        ASSERT_TRUE(outcome);
        EXPECT_TRUE(outcome->passed);
        const auto verdict =
            Decode(rank.StepIdOf(launch), world, kTerms, outcome->summaries);
        ASSERT_TRUE(verdict.ok()) << verdict.status();
        const double factor = verdict->UpdateFactor(kMaxNorm);
        EXPECT_LT(factor, verdict->GradientScale()) << "the norm has no effect";
        EXPECT_EQ(std::bit_cast<uint64_t>(factor),
                  std::bit_cast<uint64_t>(scalars.clip));
        EXPECT_EQ(std::bit_cast<uint64_t>(verdict->samples),
                  std::bit_cast<uint64_t>(scalars.samples));
      }
    }
  }
}

TEST(GateTilesTest, TheJournalNamesARankOfAnyTile) {
  for (const int damaged : {0, 255, 256, 511, 512, 599}) {
    LoneRank rank(600, damaged);
    EXPECT_EQ(rank.Run(0, damaged).commit, 0);
    const auto outcome = rank.Find(0);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->invalid_rank, damaged);
    EXPECT_FALSE(outcome->tile_is_damaged);
    EXPECT_TRUE(outcome->contributed);
  }
}

// What is wrong, in words, with a launch whose tiles are damaged, behind one
// that passed. All records are valid, or that of the last rank is not.
std::string DrillOf(uint64_t seed, bool takes_any_summary) {
  constexpr int kWorld = 600;
  using Kind = TileDamage::Kind;
  const Kind kinds[] = {Kind::kLost, Kind::kTorn, Kind::kMoved};
  const TileDamage damage{.kind = kinds[seed % 3],
                          .launch = 1,
                          .takes_any_summary = takes_any_summary};
  LoneRank rank(kWorld, seed, damage);
  if (rank.Run(0).commit != 1) return "the step before did not pass";
  const bool records_are_valid = seed / 3 % 2 == 0;
  if (rank.Run(1, records_are_valid ? -1 : kWorld - 1).commit != 0) {
    return "a step passed without its summaries";
  }
  const auto outcome = rank.Find(1);
  if (!outcome) return "the journal has no entry";
  if (outcome->passed) return "the journal says that the step passed";
  if (!outcome->contributed) return "this rank has contributed";
  if (outcome->out_of_step) return "no rank is out of step";
  if (records_are_valid && !outcome->tile_is_damaged) {
    return "a rank is named that has done nothing wrong";
  }
  if (rank.Run(2).commit != 0) return "a later step passed";
  return "";
}

TEST(GateTilesTest, NoStepPassesWithoutTheSummariesOfItsLaunch) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    ASSERT_EQ(DrillOf(seed, false), "") << "seed " << seed;
  }
}

TEST(GateTilesMistakeTest, AGateThatTakesAnySummaryIsNoticed) {
  for (uint64_t kind = 0; kind < 3; ++kind) {
    std::string said;
    uint64_t seed = kind;
    while (said.empty() && seed < 100) said = DrillOf(seed += 3, true);
    EXPECT_NE(said, "") << "kind " << kind;
    std::cout << "noticed with seed " << seed << ": " << said << "\n";
  }
}

}  // namespace
}  // namespace lockstep::gradient

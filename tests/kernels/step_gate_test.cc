#include "kernels/step_gate.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/step_gates.h"

namespace lockstep::kernels {
namespace {

constexpr GateContext kShape = {.epoch = 7, .revision = 2, .world = 3};

// The ranks of a job, which gather their records.
class Job {
 public:
  explicit Job(GateContext shape = kShape) : shape_(shape) {
    for (int rank = 0; rank < shape.world; ++rank) {
      memory_.emplace_back(shape.world, shape.depth);
      gathered_.emplace_back(shape.world);
    }
  }

  GateContext context(int rank) {
    GateContext context = memory_[rank].ContextOf(shape_);
    context.rank = rank;
    return context;
  }
  GateMemory& at(int rank) { return memory_[rank]; }
  std::vector<StepRecord>& gathered(int rank) { return gathered_[rank]; }

  // The host enqueues `step` on all ranks.
  void SetInputs(uint64_t step,
                 const StepRecord& input = {.samples = 2,
                                            .flags = StepRecord::kMoreData}) {
    for (int rank = 0; rank < shape_.world; ++rank) SetInput(rank, step, input);
  }
  void SetInput(int rank, uint64_t step, const StepRecord& input) {
    SetInput(context(rank), step, input);
  }
  void SetInput(const GateContext& context, uint64_t step,
                StepRecord input = {.samples = 1}) {
    SealStepInput(context, step, &input);
    memory_[context.rank].inputs[step % shape_.depth] = input;
  }

  void Write(int rank) {
    StepRecord& record = memory_[rank].own;
    WriteStepRecord(context(rank), &memory_[rank].norm, &record);
    for (auto& records : gathered_) records[rank] = record;
  }
  void WriteAll() {
    for (int rank = 0; rank < shape_.world; ++rank) Write(rank);
  }
  bool Gate(int rank) {
    GateMemory& memory = memory_[rank];
    GateStep(context(rank), &memory.own, gathered_[rank].data(),
             &memory.scalars);
    return memory_[rank].scalars.commit == 1;
  }
  const StepEntry* entry(int rank, uint64_t sequence) {
    return FindStepEntry(context(rank), sequence);
  }

 private:
  const GateContext shape_;
  std::vector<GateMemory> memory_;
  std::vector<std::vector<StepRecord>> gathered_;
};

TEST(StepGateTest, CommitsAStepOfWholeRecords) {
  Job job;
  job.SetInputs(0);
  for (int rank = 0; rank < 3; ++rank) {
    job.at(rank).norm = {.sum_of_squares = 1.0 + rank, .non_finite = 0};
  }
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(job.Gate(rank));
    EXPECT_EQ(job.at(rank).control.step, 1u);
    EXPECT_EQ(job.at(rank).scalars.samples, 6);
    EXPECT_EQ(job.at(rank).norm.sum_of_squares, 0);
    const StepEntry* const entry = job.entry(rank, 0);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->outcome, StepOutcome::kCommitted);
    EXPECT_EQ(entry->norm_squared, 6);
    EXPECT_EQ(entry->with_more_data, 3u);
    EXPECT_EQ(entry->records()[1].norm_squared, 2);
    EXPECT_EQ(job.entry(rank, 1), nullptr);
  }
}

TEST(StepGateTest, TermsGiveTheFactorsOfTheUpdate) {
  Job job;
  job.SetInputs(0, {.samples = 2,
                    .flags = StepRecord::kMoreData | StepRecord::kPerSample |
                             StepRecord::kHasMaxNorm,
                    .inverse_scale = 0.5,
                    .max_norm = 0.25});
  job.at(2).norm = {.sum_of_squares = 144, .non_finite = 0};
  job.WriteAll();
  EXPECT_TRUE(job.Gate(0));
  // Scale 0.5 / 6; norm 12 * scale = 1, clipped to 0.25.
  EXPECT_DOUBLE_EQ(job.at(0).scalars.clip, 0.5 / 6 * 0.25);
}

TEST(StepGateTest, ElementsThatAreNotFiniteForbidTheUpdateNotTheStep) {
  Job job;
  job.SetInputs(0);
  job.at(1).norm.non_finite = 5;
  job.WriteAll();
  EXPECT_TRUE(job.Gate(0));
  EXPECT_FALSE(MayUpdate(job.at(0).scalars));
  EXPECT_EQ(job.entry(0, 0)->non_finite, 5u);
  EXPECT_EQ(job.at(0).control.failed, 0u);
}

// --- The loss scale ----------------------------------------------------------

// The ranks of a job whose devices scale the loss.
class ScalingJob : public Job {
 public:
  explicit ScalingJob(GateContext shape = ShapeOf(2)) : Job(shape) {
    for (int rank = 0; rank < shape.world; ++rank) {
      at(rank).scales_loss = true;
      at(rank).loss_scale = {.scale = 256};
    }
  }

  static GateContext ShapeOf(uint64_t growth_interval) {
    GateContext shape = kShape;
    shape.loss_scale_rule = {.growth_interval = growth_interval};
    return shape;
  }

  // Whether all ranks commit.
  bool Step(uint64_t step, const StepRecord& input = {
                               .samples = 1, .flags = StepRecord::kMoreData}) {
    SetInputs(step, input);
    WriteAll();
    return GateAll();
  }
  bool GateAll() {
    bool all = true;
    for (int rank = 0; rank < kShape.world; ++rank) all &= Gate(rank);
    return all;
  }
  void ExpectScale(const LossScale& scale) {
    for (int rank = 0; rank < kShape.world; ++rank) {
      EXPECT_EQ(at(rank).loss_scale, scale) << "rank " << rank;
    }
  }
};

TEST(StepGateTest, AStepIsUnscaledByTheScaleThatItUsed) {
  ScalingJob job;
  job.at(2).norm.sum_of_squares = 4.0 * 256 * 256;
  EXPECT_TRUE(
      job.Step(0, {.samples = 1,
                   .flags = StepRecord::kMoreData | StepRecord::kHasMaxNorm,
                   .max_norm = 0.5}));
  // Norm 2, clipped to 0.5.
  EXPECT_EQ(job.at(0).scalars.clip, 0.25 / 256);
  job.ExpectScale({.scale = 256, .steps_without_overflow = 1});
  for (int rank = 0; rank < 3; ++rank) {
    const StepRecord& record = job.entry(0, 0)->records()[rank];
    EXPECT_EQ(record.inverse_scale, 1.0 / 256);
    EXPECT_EQ(LossScaleOf(record), (LossScale{.scale = 256}));
  }
  EXPECT_TRUE(job.Step(1));
  EXPECT_EQ(job.at(0).scalars.clip, 1.0 / 256);
  job.ExpectScale({.scale = 512});
  EXPECT_TRUE(job.Step(2));
  EXPECT_EQ(job.at(0).scalars.clip, 1.0 / 512);
}

TEST(StepGateTest, AnOverflowOfAnyRankReducesTheScaleOfAll) {
  ScalingJob job;
  EXPECT_TRUE(job.Step(0));
  job.at(1).norm.non_finite = 1;
  EXPECT_TRUE(job.Step(1));
  EXPECT_FALSE(MayUpdate(job.at(0).scalars));
  job.ExpectScale({.scale = 128});
  EXPECT_EQ(job.at(0).control.step, 2u);
}

TEST(StepGateTest, AStepThatFailsOrIsVoidKeepsTheScale) {
  for (const bool fails : {false, true}) {
    GateContext shape = ScalingJob::ShapeOf(2);
    shape.more_data_min = 3;
    ScalingJob job(shape);
    // The last one with data, unless the next is to fail.
    const StepRecord data{.flags = StepRecord::kMoreData};
    EXPECT_TRUE(job.Step(0, fails ? data : StepRecord{}));
    job.at(1).stop = fails ? 1 : 0;
    job.at(0).norm.non_finite = fails ? 0 : 3;
    EXPECT_FALSE(job.Step(1));
    job.ExpectScale({.scale = 256, .steps_without_overflow = 1});
    EXPECT_EQ(job.entry(0, 1)->outcome,
              fails ? StepOutcome::kFailed : StepOutcome::kVoid);
  }
}

TEST(StepGateTest, RanksWithDifferentLossScalesDoNotCommit) {
  const LossScaleRule other{.growth_interval = 3};
  for (int what = 0; what < 4; ++what) {
    ScalingJob job;
    if (what == 0) job.at(1).loss_scale.scale = 128;
    if (what == 1) job.at(1).loss_scale.steps_without_overflow = 1;
    job.SetInputs(0);
    if (what == 2) {
      GateContext context = job.context(1);
      context.loss_scale_rule = other;
      job.SetInput(context, 0);
    }
    if (what == 3) {
      GateContext context = job.context(1);
      context.loss_scale = nullptr;
      job.SetInput(context, 0);
    }
    job.WriteAll();
    EXPECT_FALSE(job.GateAll()) << what;
    EXPECT_EQ(job.entry(2, 0)->differing_rank, 1u) << what;
    EXPECT_EQ(job.at(0).loss_scale, (LossScale{.scale = 256})) << what;
  }
}

// What follows is what the records say.
TEST(StepGateTest, MemoryThatIsWrittenBehindTheRecordDoesNotMatter) {
  ScalingJob job;
  job.SetInputs(0);
  job.WriteAll();
  job.at(1).loss_scale = {.scale = 2, .steps_without_overflow = 1};
  EXPECT_TRUE(job.GateAll());
  job.ExpectScale({.scale = 256, .steps_without_overflow = 1});
}

TEST(StepGateTest, WithoutALossScaleTheHostsIsATerm) {
  Job job;
  job.SetInputs(0, {.samples = 1, .inverse_scale = 0.5});
  job.WriteAll();
  EXPECT_TRUE(job.Gate(0));
  EXPECT_EQ(job.at(0).scalars.clip, 0.5);
  EXPECT_EQ(job.entry(0, 0)->records()[1].loss_scale, 0u);
  EXPECT_EQ(job.at(0).loss_scale, LossScale{});
}

// --- Replays -----------------------------------------------------------------

// The ranks of a job whose program launches. What ranks say is posted.
class ReplayingJob : public Job {
 public:
  ReplayingJob() : Job(Shape()) {
    for (int rank = 0; rank < kShape.world; ++rank) {
      at(rank).replays = true;
      at(rank).control.ends_below = kShape.world;
      Post(rank, {});
    }
  }

  void Post(int rank, const StepRecord& said) {
    PostReplays(context(rank), said);
  }
  // The host has read all entries.
  void Read(int rank) { NoteRead(&at(rank).board, at(rank).control.entries); }
  // Whether the launch commits: on all ranks or on none.
  bool Launch(bool read = true) {
    for (int rank = 0; rank < kShape.world; ++rank) BeginReplay(context(rank));
    WriteAll();
    const bool commits = Gate(0);
    for (int rank = 1; rank < kShape.world; ++rank) {
      EXPECT_EQ(Gate(rank), commits) << "rank " << rank;
    }
    for (int rank = 0; read && rank < kShape.world; ++rank) Read(rank);
    return commits;
  }
  static StepRecord Held(Command command, uint64_t word) {
    return {.flags = FlagOf(command), .command_word = word};
  }

 private:
  static GateContext Shape() {
    GateContext shape = kShape;
    shape.usual = {.samples = 2,
                   .flags = StepRecord::kMoreData | StepRecord::kHasMaxNorm,
                   .max_norm = 8};
    return shape;
  }
};

TEST(StepGateTest, AReplayNeedsNoInput) {
  ReplayingJob job;
  for (uint64_t launch = 0; launch < 20; ++launch) {
    EXPECT_TRUE(job.Launch());
    const StepEntry* const entry = job.entry(1, launch);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->replay, launch);
    EXPECT_EQ(entry->is_replay, 1u);
    EXPECT_EQ(entry->samples, 6);
  }
  const ReplayCounts counts = CountReplays(job.at(0).board);
  EXPECT_EQ(counts.begun, 20u);
  EXPECT_EQ(counts.records, 20u);
  EXPECT_EQ(counts.gates, 20u);
}

TEST(StepGateTest, AReplaysInputIsOfThatReplayOnly) {
  ReplayingJob job;
  for (int rank = 0; rank < 3; ++rank) {
    StepRecord input{.samples = 5, .flags = StepRecord::kMoreData};
    SealStepInput(job.context(rank), OfReplay(2), &input);
    PutStepInput(input, &job.at(rank).replay_inputs[2]);
    job.SetInput(job.context(rank), 2, {.samples = 9});  // an eager step's
  }
  for (const double samples : {6, 6, 15, 6}) {
    EXPECT_TRUE(job.Launch());
    const StepEntry* const entry = job.entry(0, job.at(0).control.entries - 1);
    EXPECT_EQ(entry->samples, samples);
    EXPECT_EQ(entry->records()[1].max_norm, 8);
    EXPECT_NE(entry->records()[1].flags & StepRecord::kHasMaxNorm, 0u);
  }
}

TEST(StepGateTest, AFullJournalMakesReplaysVoidOnAllRanks) {
  ReplayingJob job;
  const uint64_t room = kShape.depth - 1;
  for (uint64_t launch = 0; launch < room; ++launch) {
    EXPECT_TRUE(job.Launch(/*read=*/false));
  }
  job.Read(0);
  job.Read(2);
  for (int launch = 0; launch < 3; ++launch) EXPECT_FALSE(job.Launch(false));
  for (uint64_t entry = 0; entry < room; ++entry) {
    ASSERT_NE(job.entry(1, entry), nullptr) << "overwritten";
  }
  EXPECT_EQ(job.at(1).control.step, room);
  EXPECT_EQ(job.entry(0, room), nullptr);
  job.Read(1);
  EXPECT_TRUE(job.Launch());
  EXPECT_EQ(job.entry(0, room)->replay, room + 3);
  EXPECT_EQ(job.entry(0, room)->step, room);
}

TEST(StepGateTest, AnEntryIsLeftToTheGateThatFails) {
  ReplayingJob job;
  const int room = kShape.depth - 1;
  for (int launch = 0; launch < room; ++launch) {
    EXPECT_TRUE(job.Launch(/*read=*/false));
  }
  job.at(2).stop = 1;
  EXPECT_FALSE(job.Launch(false));
  EXPECT_FALSE(job.Launch(false));
  EXPECT_EQ(job.at(1).control.failed, 1u);
  for (int entry = 0; entry < room; ++entry) {
    EXPECT_NE(job.entry(1, entry), nullptr) << "overwritten";
  }
  ASSERT_NE(job.entry(1, room), nullptr);
  EXPECT_EQ(job.entry(1, room)->outcome, StepOutcome::kFailed);
}

TEST(StepGateTest, APauseHoldsWhileAllRanksHoldIt) {
  ReplayingJob job;
  const StepRecord pause = ReplayingJob::Held(Command::kPause, 7);
  job.Post(0, pause);
  job.Post(1, pause);
  EXPECT_TRUE(job.Launch());  // rank 2 does not know of it
  job.Post(2, pause);
  EXPECT_TRUE(job.Launch());
  EXPECT_FALSE(job.Launch());
  EXPECT_FALSE(job.Launch());
  job.Post(1, {.command_word = 8});
  EXPECT_TRUE(job.Launch());
  // The others have the pause still; it does not begin again.
  EXPECT_TRUE(job.Launch());
  for (int rank = 0; rank < 3; ++rank) {
    job.Post(rank, ReplayingJob::Held(Command::kPause, 9));
  }
  EXPECT_TRUE(job.Launch());
  EXPECT_FALSE(job.Launch());
  // Another pause is another command: a step between them.
  for (int rank = 0; rank < 3; ++rank) {
    job.Post(rank, ReplayingJob::Held(Command::kPause, 11));
  }
  EXPECT_TRUE(job.Launch());
  EXPECT_FALSE(job.Launch());
}

TEST(StepGateTest, ASaveHoldsUntilAllRanksHaveActed) {
  ReplayingJob job;
  EXPECT_TRUE(job.Launch());
  for (int rank = 0; rank < 3; ++rank) {
    job.Post(rank, ReplayingJob::Held(Command::kSave, 0));
  }
  EXPECT_TRUE(job.Launch());  // entry 1
  EXPECT_FALSE(job.Launch());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(job.Launch());
    job.Post(rank, {.acted = 2});
  }
  EXPECT_TRUE(job.Launch());
}

TEST(StepGateTest, ReplaysBehindTheEndAreVoid) {
  for (const Command command :
       {Command::kStop, Command::kDrain, Command::kGrow}) {
    ReplayingJob job;
    for (int rank = 0; rank < 3; ++rank) {
      job.Post(rank, ReplayingJob::Held(command, 3));
    }
    EXPECT_TRUE(job.Launch());
    for (int rank = 0; rank < 3; ++rank) job.Post(rank, {});
    EXPECT_FALSE(job.Launch());
    EXPECT_EQ(job.at(0).control.failed, 0u);
  }
}

TEST(StepGateTest, AStepThatIsAReplayOnSomeRanksFails) {
  ReplayingJob job;
  EXPECT_TRUE(job.Launch());
  job.at(1).replays = false;
  job.SetInput(job.context(1), 1,
               {.samples = 2,
                .flags = StepRecord::kMoreData | StepRecord::kHasMaxNorm,
                .max_norm = 8});
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(job.Gate(rank));
  EXPECT_EQ(job.entry(0, 1)->outcome, StepOutcome::kFailed);
  EXPECT_EQ(job.entry(2, 1)->differing_rank, 1u);
}

TEST(StepGateTest, ARankThatFailsMayKeepNoReducedGradients) {
  ReplayingJob job;
  EXPECT_TRUE(job.Launch());
  EXPECT_TRUE(MayUpdate(job.at(1).keeps));
  job.at(1).stop = 1;
  EXPECT_FALSE(job.Launch());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(MayUpdate(job.at(rank).keeps));
    EXPECT_EQ(job.at(rank).control.entries, 2u);
  }
  EXPECT_FALSE(job.Launch());
  EXPECT_EQ(job.at(0).control.entries, 2u);  // of the first failure only
}

// --- Damage ------------------------------------------------------------------

TEST(StepGateTest, NoDamagedRecordPassesAndNoLaterStepDoes) {
  for (uint64_t seed = 0; seed < 700; ++seed) {
    std::mt19937_64 random(seed);
    const auto fault = static_cast<Fault>(1 + seed % (kFaults - 1));
    GateContext shape = kShape;
    // Other terms than its own need a second rank.
    shape.world = (fault == Fault::kTerms ? 2 : 1) + random() % 9;
    GateMemory memory(shape.world, shape.depth);
    memory.control = {.step = 5, .sequence = 6, .entries = 6};
    const GateContext context = memory.ContextOf(shape);
    auto records = RandomRecords(random, context, memory.control);
    Damage(random, context, memory.control, fault, &records);
    memory.scalars.commit = 1;
    GateStep(context, &records[0], records.data(), &memory.scalars);
    EXPECT_NE(memory.scalars.commit, 1) << "seed " << seed;
    EXPECT_EQ(memory.control.step, 5u);
    const StepEntry* const entry = FindStepEntry(context, 6);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->outcome, StepOutcome::kFailed);
    records = RandomRecords(random, context, memory.control);
    GateStep(context, &records[0], records.data(), &memory.scalars);
    EXPECT_NE(memory.scalars.commit, 1) << "seed " << seed;
    EXPECT_EQ(FindStepEntry(context, 7), nullptr);
    EXPECT_NE(FindStepEntry(context, 6), nullptr);
  }
}

// An aborted gather may leave anything in the place of this rank's record.
TEST(StepGateTest, TheJournalSaysWhetherThisRankContributed) {
  for (const bool stopped : {false, true}) {
    Job job;
    job.SetInputs(0);
    job.at(1).stop = stopped ? 1 : 0;
    job.WriteAll();
    for (StepRecord& record : job.gathered(1)) record = {};
    EXPECT_FALSE(job.Gate(1));
    ASSERT_NE(job.entry(1, 0), nullptr);
    EXPECT_EQ(job.entry(1, 0)->contributed, stopped ? 0u : 1u);
  }
}

TEST(StepGateTest, ARankThatWasStoppedContributesToNoStep) {
  Job job;
  job.SetInputs(0);
  job.at(1).stop = 1;
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(job.Gate(rank));
  EXPECT_EQ(job.entry(0, 0)->invalid_rank, 1u);
}

// Rank 2 received a damaged record: it failed step 0, which the others passed.
TEST(StepGateTest, ARankThatFailedAStepContributesToNoLaterOne) {
  Job job;
  job.SetInputs(0);
  job.SetInputs(1);
  job.WriteAll();
  job.gathered(2)[0].checksum ^= 1;
  EXPECT_TRUE(job.Gate(0));
  EXPECT_TRUE(job.Gate(1));
  EXPECT_FALSE(job.Gate(2));
  job.WriteAll();
  EXPECT_FALSE(job.Gate(0));
  EXPECT_FALSE(job.Gate(1));
  EXPECT_EQ(job.entry(0, 1)->invalid_rank, 2u);
  EXPECT_EQ(job.at(0).control.step, 1u);
  EXPECT_EQ(job.at(2).control.step, 0u);
}

TEST(StepGateTest, AnInputOfAnotherLaunchIsNotUsed) {
  Job job;
  job.SetInputs(0);
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.Gate(rank));
  job.SetInput(0, 1, {.samples = 1});
  job.SetInput(1, 1, {.samples = 1});  // rank 2 has none of launch 1
  job.WriteAll();
  EXPECT_FALSE(job.Gate(0));
  EXPECT_EQ(job.entry(0, 1)->invalid_rank, 2u);
}

TEST(StepGateTest, StepsBehindTheLastDataAreVoid) {
  GateContext shape = kShape;
  shape.more_data_min = 3;
  Job job(shape);
  job.SetInputs(0);
  job.SetInput(1, 0, {.samples = 2});  // its last
  job.SetInputs(1);
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.Gate(rank));
  job.WriteAll();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(job.Gate(rank));
    EXPECT_EQ(job.entry(rank, 1)->outcome, StepOutcome::kVoid);
    EXPECT_EQ(job.at(rank).control.step, 1u);
    EXPECT_EQ(job.at(rank).control.failed, 0u);
  }
}

TEST(StepGateTest, TheJournalIsARingAndNoticesDamage) {
  Job job;
  for (uint64_t step = 0; step < 10; ++step) {
    job.SetInputs(step);
    job.WriteAll();
    for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(job.Gate(rank));
    ASSERT_NE(job.entry(0, step), nullptr);
    EXPECT_EQ(job.entry(0, step)->step, step);
  }
  EXPECT_NE(job.entry(0, 6), nullptr);
  EXPECT_EQ(job.entry(0, 5), nullptr) << "overwritten";
  // Every word of entry 9, but those that are not used.
  std::mt19937_64 random(1);
  const size_t words = StepEntryBytes(3) / sizeof(uint64_t);
  for (size_t i = 0; i < words; ++i) {
    if (i >= 11 && i < 16) continue;
    uint64_t& word = job.at(0).journal[9 % 4 * words + i];
    const uint64_t before = word;
    word ^= uint64_t{1} << random() % 64;
    EXPECT_EQ(job.entry(0, 9), nullptr) << "word " << i;
    word = before;
  }
  EXPECT_NE(job.entry(0, 9), nullptr);
}

}  // namespace
}  // namespace lockstep::kernels

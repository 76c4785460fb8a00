#include "lockstep/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

std::vector<int64_t> Pass(const SampleStream& stream, int64_t pass) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < stream.dataset_size; ++i) {
    samples.push_back(SampleAt(stream, pass * stream.dataset_size + i));
  }
  return samples;
}

TEST(SamplesTest, EveryPassShowsEverySampleOnce) {
  for (const uint64_t seed : {0u, 1u, 12345u}) {
    for (int64_t size = 1; size <= 200; ++size) {
      const SampleStream stream{.seed = seed, .dataset_size = size};
      for (const int64_t pass : {0, 1, 7}) {
        std::vector<int64_t> samples = Pass(stream, pass);
        std::sort(samples.begin(), samples.end());
        std::vector<int64_t> all(size);
        std::iota(all.begin(), all.end(), 0);
        ASSERT_EQ(samples, all) << "seed " << seed << " size " << size;
      }
    }
  }
}

TEST(SamplesTest, PassesAndSeedsDiffer) {
  const SampleStream one{.seed = 1, .dataset_size = 100};
  const SampleStream two{.seed = 2, .dataset_size = 100};
  EXPECT_NE(Pass(one, 0), Pass(one, 1));
  EXPECT_NE(Pass(one, 0), Pass(two, 0));
  EXPECT_EQ(Pass(one, 3), Pass(one, 3));
}

// In every small data set each sample comes first about equally often: in 4,000
// passes a fair count deviates by less than six standard deviations.
TEST(SamplesTest, NoSampleIsFavoured) {
  constexpr int kPasses = 4000;
  for (int64_t size = 2; size <= 17; ++size) {
    std::vector<double> first(size, 0);
    for (int pass = 0; pass < kPasses; ++pass) {
      ++first[SampleAt({.seed = 5, .dataset_size = size}, pass * size)];
    }
    const double fair = static_cast<double>(kPasses) / size;
    for (const double count : first) {
      EXPECT_NEAR(count, fair, 6 * std::sqrt(fair)) << "of " << size;
    }
  }
}

TEST(SamplesTest, OrderLooksRandom) {
  std::set<std::vector<int64_t>> orders;
  for (int pass = 0; pass < 2000; ++pass) {
    orders.insert(Pass({.seed = 9, .dataset_size = 4}, pass));
  }
  EXPECT_EQ(orders.size(), 24u) << "of the 4! orders of four samples";
}

TEST(SamplesTest, StepsWalkTheStreamWithoutGaps) {
  const SampleStream stream{.seed = 3, .dataset_size = 10, .global_batch = 4};
  std::vector<int64_t> walked;
  for (int64_t step = 0; step < 5; ++step) {
    for (const int64_t sample : SamplesOfStep(stream, step)) {
      walked.push_back(sample);
    }
  }
  std::vector<int64_t> expected = Pass(stream, 0);
  for (const int64_t sample : Pass(stream, 1)) expected.push_back(sample);
  EXPECT_EQ(walked, expected);
}

TEST(SamplesTest, SharesAreTheWholeInAnyWorld) {
  for (const int64_t batch : {1, 5, 16, 23}) {
    const SampleStream stream{
        .seed = 4, .dataset_size = 17, .global_batch = batch};
    for (int world = 1; world <= 9; ++world) {
      std::vector<int64_t> joined;
      size_t previous = static_cast<size_t>(batch);
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<int64_t> share = ShareOfStep(stream, 6, rank, world);
        EXPECT_LE(share.size(), previous) << "lower ranks hold more";
        EXPECT_LE(static_cast<size_t>(batch / world), share.size());
        previous = share.size();
        joined.insert(joined.end(), share.begin(), share.end());
      }
      EXPECT_LE(static_cast<size_t>(batch) / world, previous);
      EXPECT_EQ(joined, SamplesOfStep(stream, 6)) << "world of " << world;
    }
  }
}

// Golden values, so that a change, which would shuffle every job, is noticed.
TEST(SamplesTest, GoldenValues) {
  const std::vector<int64_t> digits =
      SamplesOfStep({.seed = 1, .dataset_size = 1797, .global_batch = 8}, 0);
  EXPECT_EQ(digits,
            (std::vector<int64_t>{1612, 955, 1685, 362, 588, 653, 357, 1620}));
  const SampleStream large{.seed = 7, .dataset_size = int64_t{1} << 40};
  EXPECT_EQ(SampleAt(large, 0), 904900416675);
  EXPECT_EQ(SampleAt(large, (int64_t{1} << 40) + 5), 6818809595);
}

std::vector<int64_t> AllShards(EpochShard shard) {
  std::vector<int64_t> all;
  for (shard.rank = 0; shard.rank < shard.world_size; ++shard.rank) {
    const std::vector<int64_t> samples = ShardSamples(shard);
    EXPECT_EQ(static_cast<int64_t>(samples.size()), ShardSize(shard));
    all.insert(all.end(), samples.begin(), samples.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(EpochShardTest, ShardsTakeTurnsInTheOrderOfTheEpoch) {
  EpochShard shard{.dataset_size = 8, .world_size = 3, .shuffle = false};
  EXPECT_EQ(ShardSamples(shard), (std::vector<int64_t>{0, 3, 6}));
  shard.rank = 2;
  EXPECT_EQ(ShardSamples(shard), (std::vector<int64_t>{2, 5}));
  shard.uneven = UnevenEpoch::kRepeat;
  EXPECT_EQ(ShardSamples(shard), (std::vector<int64_t>{2, 5, 0}));
  shard.rank = 0;
  shard.uneven = UnevenEpoch::kDrop;
  EXPECT_EQ(ShardSamples(shard), (std::vector<int64_t>{0, 3}));
  // The shuffled order is that of the sample stream's pass.
  shard = {
      .seed = 5, .epoch = 3, .dataset_size = 8, .rank = 1, .world_size = 3};
  const std::vector<int64_t> order =
      Pass({.seed = 5, .dataset_size = 8}, shard.epoch);
  EXPECT_EQ(ShardSamples(shard),
            (std::vector<int64_t>{order[1], order[4], order[7]}));
}

TEST(EpochShardTest, AllShardsAreTheEpoch) {
  for (const int64_t size : {1, 2, 7, 64, 101}) {
    std::vector<int64_t> once(size);
    std::iota(once.begin(), once.end(), 0);
    for (const int world : {1, 2, 3, 8, 150}) {
      EpochShard shard{
          .seed = 9, .epoch = 2, .dataset_size = size, .world_size = world};
      EXPECT_EQ(AllShards(shard), once) << size << " over " << world;
      shard.uneven = UnevenEpoch::kRepeat;
      std::vector<int64_t> repeated = AllShards(shard);
      EXPECT_EQ(repeated.size() % world, 0u);
      EXPECT_LT(static_cast<int64_t>(repeated.size()), size + world);
      EXPECT_TRUE(std::includes(repeated.begin(), repeated.end(), once.begin(),
                                once.end()));
      shard.uneven = UnevenEpoch::kDrop;
      const std::vector<int64_t> kept = AllShards(shard);
      EXPECT_EQ(static_cast<int64_t>(kept.size()), size / world * world);
      EXPECT_TRUE(
          std::includes(once.begin(), once.end(), kept.begin(), kept.end()));
    }
  }
}

TEST(SamplesDeathTest, RefusesAnEmptyDataSet) {
  EXPECT_DEATH(ShardSize({.world_size = 2}), "data set");
  EXPECT_DEATH(ShardSize({.dataset_size = 3, .rank = 2, .world_size = 2}),
               "outside the world");
  EXPECT_DEATH(ShardSampleAt({.dataset_size = 3, .world_size = 2}, 2),
               "outside the shard");
  EXPECT_DEATH(SampleAt({.seed = 1}, 0), "data set");
  EXPECT_DEATH(ShareOfStep({.dataset_size = 3}, 0, 2, 2), "outside the world");
}

}  // namespace
}  // namespace lockstep

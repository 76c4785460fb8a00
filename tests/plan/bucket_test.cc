#include "plan/bucket.h"

#include <numeric>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

const CommunicatorSpec kWorld{.name = "world", .ranks = {0, 1, 2, 3}};
const CommunicatorSpec kLower{.name = "lower", .ranks = {0, 1}};
const CommunicatorSpec kUpper{.name = "upper", .ranks = {2, 3}};

Parameter Floats(int64_t count) { return {.name = "p", .shape = {count}}; }

std::vector<int> Forward(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The parameters of each bucket.
std::vector<std::vector<int>> Contents(const std::vector<Bucket>& buckets) {
  std::vector<std::vector<int>> contents;
  for (const Bucket& bucket : buckets) {
    contents.emplace_back();
    for (const Slot& slot : bucket.slots) {
      contents.back().push_back(slot.parameter);
    }
  }
  return contents;
}

std::vector<std::vector<int>> Cut(const std::vector<Parameter>& parameters,
                                  const std::vector<int>& communicator_of,
                                  const BucketPolicy& policy = {}) {
  return Contents(CutBuckets(parameters, {kWorld, kLower, kUpper},
                             communicator_of, Forward(parameters.size()),
                             policy));
}

using Cuts = std::vector<std::vector<int>>;

TEST(BucketTest, CountsTheBytesOnTheWire) {
  const std::vector<Parameter> four(4, Floats(16));
  const BucketPolicy as_they_are{.first_bytes_max = 128, .bytes_max = 128};
  BucketPolicy as_halves = as_they_are;
  as_halves.wire_dtype = DType::kBF16;
  EXPECT_EQ(Cut(four, {0, 0, 0, 0}, as_they_are), (Cuts{{0, 1}, {2, 3}}));
  EXPECT_EQ(Cut(four, {0, 0, 0, 0}, as_halves), (Cuts{{0, 1, 2, 3}}));
}

TEST(BucketTest, CastsWhatIsLongerThanTheWire) {
  std::vector<Parameter> parameters(4, Floats(4));
  parameters[0].dtype = DType::kF64;
  parameters[2].dtype = DType::kF16;
  parameters[3].dtype = DType::kBF16;
  const std::vector<Bucket> buckets =
      CutBuckets(parameters, {kWorld}, {0, 0, 0, 0}, Forward(4),
                 {.wire_dtype = DType::kF16, .error_feedback = true});
  ASSERT_EQ(buckets.size(), 4u);
  for (const int cast : {0, 1}) {
    EXPECT_EQ(WireOf(buckets[cast]), DType::kF16);
    EXPECT_TRUE(buckets[cast].error_feedback);
  }
  EXPECT_EQ(WireOf(buckets[2]), DType::kF16);
  EXPECT_EQ(WireOf(buckets[3]), DType::kBF16);
  for (const int as_it_is : {2, 3}) {
    EXPECT_FALSE(buckets[as_it_is].wire.has_value());
    EXPECT_FALSE(buckets[as_it_is].error_feedback);
  }
}

TEST(BucketTest, SlotsAndFlagsStartAtMultiplesOf64Bytes) {
  const std::vector<Bucket> buckets =
      CutBuckets({Floats(3), Floats(16), Floats(0), Floats(1)}, {kWorld},
                 {0, 0, 0, 0}, Forward(4), {});
  ASSERT_EQ(buckets.size(), 1u);
  const std::vector<Slot> expected = {
      {.parameter = 0, .offset = 0, .count = 3},
      {.parameter = 1, .offset = 16, .count = 16},
      {.parameter = 2, .offset = 32, .count = 0},
      {.parameter = 3, .offset = 32, .count = 1}};
  EXPECT_EQ(buckets[0].slots, expected);
  EXPECT_EQ(buckets[0].flags_offset, 48);
  EXPECT_EQ(buckets[0].total, 52);
}

TEST(BucketTest, FollowsTheOrderItIsGiven) {
  const std::vector<Bucket> buckets = CutBuckets(
      {Floats(1), Floats(1), Floats(1)}, {kWorld}, {0, 0, 0}, {2, 0, 1}, {});
  EXPECT_EQ(Contents(buckets), (Cuts{{2, 0, 1}}));
}

TEST(BucketTest, TheFirstBucketIsSmaller) {
  const std::vector<Parameter> parameters(5, Floats(16));
  EXPECT_EQ(Cut(parameters, {0, 0, 0, 0, 0},
                {.first_bytes_max = 64, .bytes_max = 128}),
            (Cuts{{0}, {1, 2}, {3, 4}}));
}

TEST(BucketTest, ABoundThatIsJustReachedIsNotPassed) {
  EXPECT_EQ(Cut({Floats(16), Floats(16)}, {0, 0}, {.first_bytes_max = 128}),
            (Cuts{{0, 1}}));
  EXPECT_EQ(Cut({Floats(16), Floats(17)}, {0, 0}, {.first_bytes_max = 128}),
            (Cuts{{0}, {1}}));
}

TEST(BucketTest, ALargeParameterHasABucketOfItsOwn) {
  EXPECT_EQ(Cut({Floats(1), Floats(1000), Floats(1)}, {0, 0, 0},
                {.first_bytes_max = 64, .bytes_max = 64}),
            (Cuts{{0}, {1}, {2}}));
}

TEST(BucketTest, CutsAtAnotherDTypeOrOp) {
  std::vector<Parameter> parameters(5, Floats(1));
  parameters[1].dtype = DType::kF64;
  parameters[3].op = ReduceOp::kSum;
  EXPECT_EQ(Cut(parameters, {0, 0, 0, 0, 0}), (Cuts{{0}, {1}, {2}, {3}, {4}}));
}

TEST(BucketTest, CutsWhereACommonRankTurnsToAnotherCommunicator) {
  const std::vector<Parameter> parameters(3, Floats(1));
  EXPECT_EQ(Cut(parameters, {1, 0, 1}), (Cuts{{0}, {1}, {2}}));
}

TEST(BucketTest, RanksThatShareNothingDoNotCutEachOther) {
  const std::vector<Parameter> parameters(4, Floats(1));
  EXPECT_EQ(Cut(parameters, {1, 2, 1, 2}), (Cuts{{0, 2}, {1, 3}}));
}

TEST(BucketTest, EveryRankStartsWithASmallBucket) {
  const std::vector<Parameter> parameters(6, Floats(16));
  EXPECT_EQ(Cut(parameters, {1, 1, 1, 2, 2, 2},
                {.first_bytes_max = 64, .bytes_max = 128}),
            (Cuts{{0}, {1, 2}, {3}, {4, 5}}));
}

// Checks the rules independently, bucket by bucket and rank by rank.
TEST(BucketTest, KeepsItsRulesOnRandomInput) {
  const std::vector<CommunicatorSpec> communicators = {kWorld, kLower, kUpper};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Parameter> parameters;
    std::vector<int> communicator_of;
    for (size_t i = random() % 40; i > 0; --i) {
      parameters.push_back(RandomParameter(random, {}, 0));
      communicator_of.push_back(static_cast<int>(random() % 3));
    }
    std::vector<int> order = Forward(parameters.size());
    std::shuffle(order.begin(), order.end(), random);
    const BucketPolicy policy{.first_bytes_max = 200, .bytes_max = 3000};
    const std::vector<Bucket> buckets =
        CutBuckets(parameters, communicators, communicator_of, order, policy);

    std::multiset<int> held;
    for (const Bucket& bucket : buckets) {
      const int64_t size = static_cast<int64_t>(SizeOf(bucket.dtype));
      int64_t end = 0;
      for (const Slot& slot : bucket.slots) {
        held.insert(slot.parameter);
        EXPECT_EQ(slot.offset * size % kSlotAlignmentBytes, 0);
        EXPECT_GE(slot.offset, end);
        EXPECT_LT((slot.offset - end) * size, kSlotAlignmentBytes);
        EXPECT_EQ(slot.count, ElementsOf(parameters[slot.parameter]));
        EXPECT_EQ(bucket.dtype, parameters[slot.parameter].dtype);
        EXPECT_EQ(bucket.op, parameters[slot.parameter].op);
        EXPECT_EQ(bucket.communicator, communicator_of[slot.parameter]);
        end = slot.offset + slot.count;
      }
      EXPECT_TRUE(end * size <= policy.bytes_max || bucket.slots.size() == 1);
      EXPECT_GE(bucket.flags_offset, end);
    }
    EXPECT_EQ(held, std::multiset<int>(order.begin(), order.end()));
  }
}

}  // namespace
}  // namespace lockstep::plan

#include "plan/state/declared_state.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "plan/verify/verify.h"

namespace lockstep::plan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Mesh kPair = {{{"data", 2}}};
const Mesh kGrid = {{{"data", 2}, {"model", 2}}};

using ByRank = std::vector<std::vector<StateSpec>>;

PlanInput Registered(const Mesh& mesh, ByRank states) {
  PlanInput input{.mesh = mesh, .states = std::move(states)};
  input.registrations.resize(static_cast<size_t>(mesh.WorldSize()));
  return input;
}

ByRank ByAll(const Mesh& mesh, const StateSpec& spec) {
  return ByRank(static_cast<size_t>(mesh.WorldSize()), {spec});
}

StateSpec Rows(int64_t rows) {
  return {.name = "w", .shape = {rows, 8}, .cuts = {{0, {"data"}}}};
}

StateSpec Whole(const std::string& name) {
  return {.name = name, .shape = {3}};
}

void ExpectStateRefused(const PlanInput& input, const std::string& said) {
  const auto plan = Compile(input);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr(said));
}

TEST(DeclaredStateTest, BlocksOfAllRanksMakeATensor) {
  const auto plan = Compile(Registered(kPair, {{Rows(6)}, {Rows(4)}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  EXPECT_THAT(
      plan->state,
      ElementsAre(StateTensor{.name = "w",
                              .dims = {{.axes = {"data"}, .bounds = {0, 6, 10}},
                                       {.bounds = {0, 8}}},
                              .ranks = {0, 1}}));
}

TEST(DeclaredStateTest, BlocksAreNumberedOverTheirAxes) {
  ByRank declared;
  for (int64_t rank = 0; rank < 4; ++rank) {
    declared.push_back(
        {{.name = "w", .shape = {rank + 1}, .cuts = {{0, {"model", "data"}}}}});
  }
  const auto plan = Compile(Registered(kGrid, declared));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Ranks 0 2 1 3.
  EXPECT_THAT(plan->state[0].dims[0].bounds, ElementsAre(0, 1, 4, 6, 10));
}

TEST(DeclaredStateTest, IsInTheOrderOfTheLowestRank) {
  const auto plan = Compile(Registered(
      kPair, {{Whole("b"), Whole("a")}, {Whole("a"), Whole("c"), Whole("b")}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->state.size(), 3u);
  EXPECT_EQ(plan->state[0].name, "b");
  EXPECT_EQ(plan->state[1].name, "a");
  EXPECT_EQ(plan->state[2].name, "c");
  EXPECT_THAT(plan->state[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(plan->state[2].ranks, ElementsAre(1));
}

TEST(DeclaredStateTest, RanksMayHoldSlices) {
  StateSpec first = Whole("m"), second = Whole("m");
  first.slice = {0, 2};
  second.slice = {2, 1};
  const auto plan = Compile(Registered(kPair, {{first}, {second}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  EXPECT_THAT(plan->state[0].slices,
              ElementsAre(StateSlice{0, 2}, StateSlice{2, 1}));
}

TEST(DeclaredStateTest, ARankWithoutElementsHoldsNothing) {
  StateSpec all = Whole("m"), none = Whole("m");
  all.slice = {0, 3};
  none.slice = {3, 0};
  const auto plan = Compile(Registered(kPair, {{none}, {all}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->state[0].ranks, ElementsAre(1));
  StateSpec empty{.name = "e", .shape = {0}, .slice = StateSlice{0, 0}};
  const auto nothing = Compile(Registered(kPair, ByAll(kPair, empty)));
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_THAT(nothing->state[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(nothing->state[0].slices, IsEmpty());
}

TEST(DeclaredStateTest, RanksThatDifferAreNamedWithBothValues) {
  const struct {
    std::function<void(StateSpec&)> change;
    std::string first, second;
  } cases[] = {
      {[](StateSpec& s) { s.dtype = DType::kF64; }, "rank 0: f32[*,8]",
       "rank 1: f64[*,8]"},
      {[](StateSpec& s) { s.shape[1] = 9; }, "f32[*,8]", "f32[*,9]"},
      {[](StateSpec& s) { s.shape.push_back(1); }, "f32[*,8]", "f32[*,8,1]"},
      {[](StateSpec& s) { s.cuts.clear(); }, "over data", "f32[4,8]"},
      {[](StateSpec& s) { s.sliced_like = "p"; }, "over data", "sliced like p"},
  };
  for (const auto& wrong : cases) {
    ByRank declared = {{Rows(4)}, {Rows(4)}};
    wrong.change(declared[1][0]);
    ExpectStateRefused(Registered(kPair, declared),
                       "state \"w\": ranks register it differently: ");
    ExpectStateRefused(Registered(kPair, declared), wrong.first);
    ExpectStateRefused(Registered(kPair, declared), wrong.second);
  }
}

TEST(DeclaredStateTest, NamesWhatRanksTogetherGetWrong) {
  ByRank sizes = ByAll(kGrid, Rows(4));
  sizes[3][0].shape[0] = 5;
  ExpectStateRefused(Registered(kGrid, sizes),
                     "dim 0: ranks 2 and 3 have the same block of data, "
                     "number 1, with 4 and 5 elements");
  ExpectStateRefused(Registered(kPair, {{Rows(4)}, {}}),
                     "dim 0: block 1 of 2 over data is registered by no rank");
  ExpectStateRefused(Registered(kPair, {{Whole("a"), Whole("a")}, {}}),
                     "state \"a\" is registered twice by rank 0");
  ExpectStateRefused(Registered(kPair, {{}, {{.name = ""}}}), "rank 1: ");
  StateSpec part = Whole("m");
  part.slice = {0, 2};
  ExpectStateRefused(Registered(kPair, ByAll(kPair, part)),
                     "1 of its 3 elements are held by no rank");
  ByRank overlapping = ByAll(kPair, part);
  overlapping[1][0].slice = {1, 2};
  ExpectStateRefused(Registered(kPair, overlapping),
                     "ranks 0 and 1 hold different slices that overlap");
  // Both dimensions are cut, and two of four blocks are there.
  StateSpec corner{
      .name = "c", .shape = {2, 2}, .cuts = {{0, {"data"}}, {1, {"model"}}}};
  ExpectStateRefused(Registered(kGrid, {{corner}, {}, {}, {corner}}),
                     "8 of its 16 elements are held by no rank");
}

// --- Sliced like parameters --------------------------------------------------

PlanInput Sharded(const Mesh& mesh) {
  PlanInput input{.mesh = mesh, .sync = SyncMode::kReduceScatter};
  const std::vector<Parameter> parameters = {
      {.name = "p", .shape = {5, 7}, .axes = {"data"}},
      {.name = "q", .shape = {100}, .axes = {"data"}}};
  input.registrations.resize(static_cast<size_t>(mesh.WorldSize()), parameters);
  input.states.resize(static_cast<size_t>(mesh.WorldSize()),
                      {{.name = "p.m", .shape = {5, 7}, .sliced_like = "p"},
                       {.name = "q.m",
                        .dtype = DType::kF64,
                        .shape = {100},
                        .sliced_like = "q"}});
  return input;
}

TEST(DeclaredStateTest, ParametersThatAreNotShardedAreWhole) {
  PlanInput input = Sharded(kPair);
  input.sync = SyncMode::kStatic;
  const auto plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->state[0].slices, IsEmpty());
  input.leaves = 4;  // sums in slices, but every rank updates all
  const auto tree = Compile(input);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_THAT(tree->state[0].slices, IsEmpty());
}

TEST(DeclaredStateTest, SlicesAreThoseOfTheBuckets) {
  const auto plan = Compile(Sharded(kPair));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  // One bucket: q at 0-99, p at 112-146, in slices of 80 elements.
  ASSERT_EQ(plan->buckets.size(), 1u);
  const Bucket& bucket = plan->buckets[0];
  ASSERT_EQ(bucket.flags_offset, 160);
  ASSERT_EQ(bucket.slots[1].offset, 112);
  EXPECT_THAT(plan->state[0].ranks, ElementsAre(1));
  EXPECT_THAT(plan->state[0].slices, ElementsAre(StateSlice{0, 35}));
  EXPECT_THAT(plan->state[1].ranks, ElementsAre(0, 1));
  EXPECT_THAT(plan->state[1].slices,
              ElementsAre(StateSlice{0, 80}, StateSlice{80, 20}));
}

// Each group of ranks has a parameter of its own, of one name: a block of the
// tensor.
TEST(DeclaredStateTest, BlocksOfGroupsAreSlicedEachByItsGroup) {
  PlanInput input = Sharded(kGrid);
  for (size_t rank = 0; rank < 4; ++rank) {
    const int64_t rows = rank % 2 == 0 ? 5 : 9;
    input.registrations[rank][0].shape = {rows, 7};
    input.states[rank][0].shape = {rows, 7};
    input.states[rank][0].cuts = {{0, {"model"}}};
    input.states[rank].pop_back();
  }
  const auto plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
  const StateTensor& state = plan->state[0];
  EXPECT_THAT(state.dims[0].bounds, ElementsAre(0, 5, 14));
  int64_t held = 0;
  for (const StateSlice& slice : state.slices) held += slice.count;
  EXPECT_EQ(held, 14 * 7);
}

TEST(DeclaredStateTest, AParameterMustBeThereWithTheShapeOfTheBlock) {
  PlanInput shape = Sharded(kPair);
  for (auto& specs : shape.states) specs[0].shape = {7, 5};
  ExpectStateRefused(shape,
                     "rank 0 registers the block [7,5], sliced like parameter "
                     "p, which is [5,7]");
  PlanInput name = Sharded(kPair);
  for (auto& specs : name.states) specs[1].sliced_like = "r";
  ExpectStateRefused(
      name,
      "state \"q.m\": it is sliced like r, which is no parameter of "
      "rank 0");
}

// --- Later revisions ---------------------------------------------------------

TEST(DeclaredStateTest, ARecutKeepsTheState) {
  PlanInput input = Sharded(kPair);
  input.sync = SyncMode::kStatic;
  input.policy = {.first_bytes_max = 100, .bytes_max = 100};
  const Plan plan = *Compile(input);
  const auto next = Recut(plan, input.policy, {0, 1});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE(next->buckets, plan.buckets);
  EXPECT_EQ(next->state, plan.state);
  EXPECT_NE(DigestOf(*next), DigestOf(plan));
}

TEST(DeclaredStateTest, ARecutMustNotMoveSlices) {
  const PlanInput input = Sharded(kPair);
  const Plan plan = *Compile(input);
  const auto same = Recut(plan, input.policy, OrderOf(plan));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->state, plan.state);
  const auto moved = Recut(plan, input.policy, {0, 1});
  EXPECT_EQ(moved.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(moved.status().message()), HasSubstr("\"p.m\""));
}

// --- Proofs ------------------------------------------------------------------

TEST(StateVerifierTest, NamesStateThatCannotBe) {
  const struct {
    std::function<void(Plan&)> damage;
    std::string said;
  } cases[] = {
      {[](Plan& p) { p.state[0].name.clear(); }, "1 to 512 bytes"},
      {[](Plan& p) { p.state[1].name = p.state[0].name; },
       "\"p.m\" is there twice"},
      {[](Plan& p) { p.state[0].dtype = DType::kC128; }, "cannot have dtype"},
      {[](Plan& p) { p.state[0].dtype = DType{77}; }, "cannot have dtype"},
      {[](Plan& p) { p.state[0].ranks = {2}; }, "rank 2 is not in the mesh"},
      {[](Plan& p) {
         p.state[1].ranks = {1, 0};
       },
       "do not rise"},
      {[](Plan& p) { p.state[1].slices[1].offset = 79; }, "overlap"},
      {[](Plan& p) { p.state[1].slices[0].count = 79; }, "held by no rank"},
      {[](Plan& p) { p.state[1].slices[1].count = 21; }, "of a block of 100"},
      {[](Plan& p) { p.state[1].dims[0].bounds = {0}; }, "has 1 bounds"},
      {[](Plan& p) { p.state[1].dims[0].bounds.clear(); }, "has 0 bounds"},
  };
  for (const auto& wrong : cases) {
    Plan plan = *Compile(Sharded(kPair));
    ASSERT_EQ(Verify(plan), absl::OkStatus());
    wrong.damage(plan);
    const absl::Status refused = Verify(plan);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(wrong.said));
  }
}

}  // namespace
}  // namespace lockstep::plan

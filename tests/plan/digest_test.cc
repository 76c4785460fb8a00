#include "plan/digest.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/plan/plans.h"

namespace lockstep::plan {
namespace {

// A small plan in which every field has a different value.
Plan Sample() {
  Plan plan{.revision = {3}, .mesh = MeshOf({{"data", 2}})};
  plan.communicators = {{.name = "world", .ranks = {0, 1}}};
  plan.parameters = {{.name = "w", .shape = {4, 2}, .dtype = DType::kF16}};
  plan.buckets = {{.communicator = 0,
                   .dtype = DType::kF16,
                   .op = ReduceOp::kSum,
                   .slots = {{.parameter = 0, .offset = 0, .count = 8}},
                   .flags_offset = 32,
                   .total = 33}};
  const Transfer transfer{.kind = TransferKind::kSend,
                          .communicator = 0,
                          .dtype = DType::kF16,
                          .shape = {33},
                          .op = ReduceOp::kSum,
                          .root = 1,
                          .peer = 1,
                          .tag = 5,
                          .bucket = 0,
                          .halo = 0,
                          .group = 2,
                          .after = {{.lane = 1, .index = 0}},
                          .after_task = 0,
                          .buffer = 2,
                          .divisor = 3,
                          .before = {{.kind = LocalKind::kCast,
                                      .from = DType::kF32,
                                      .to = DType::kF16,
                                      .offset = 1,
                                      .count = 2,
                                      .leaf = 3,
                                      .divisor = 4}},
                          .then = {{.kind = LocalKind::kNorm}}};
  const RankPlan rank{
      .lanes = {{.name = "gradient", .transfers = {transfer, transfer}}},
      .launch_order = {{0, 0}, {0, 1}},
      .tasks = {{.work = Work::kBackward,
                 .stage = 1,
                 .micro_batch = 2,
                 .after = {{0, 1}}}},
      .halos = {
          {.halo = 0,
           .own = {{.field = 1, .dims = {{.in = 2, .out = 3, .count = 4}}}},
           .fills = {{.box = {.dims = {{.out = 5, .step = 0}}}, .value = 0.5}},
           .sends = {{.peer = 1, .bytes = 16, .boxes = {{.field = 2}}}},
           .receives = {{.peer = 1, .bytes = 32}}}}};
  plan.halos = {{.name = "u",
                 .mesh = MeshOf({{"data", 2}}),
                 .ranks = {0, 1},
                 .communicator = 0,
                 .fields = {{.dtype = DType::kI16,
                             .dims = {{.axis = 0,
                                       .bounds = {0, 3, 5},
                                       .low = 1,
                                       .high = 2,
                                       .edge = HaloEdge::kConstant,
                                       .constant = 7}}}}}};
  plan.ranks = {rank, rank};
  plan.state = {{.name = "m",
                 .dtype = DType::kF64,
                 .dims = {{.axes = {"data"}, .bounds = {0, 3, 5}}},
                 .ranks = {0, 1},
                 .slices = {{0, 3}, {1, 1}}}};
  return plan;
}

using Change = std::function<void(Plan&)>;

std::vector<Change> ChangesOfEveryField() {
  const auto transfer = [](Plan& p) -> Transfer& {
    return p.ranks[1].lanes[0].transfers[1];
  };
  const auto extent = [](Plan& p) -> HaloExtent& {
    return p.halos[0].fields[0].dims[0];
  };
  const auto routes = [](Plan& p) -> HaloRoutes& {
    return p.ranks[1].halos[0];
  };
  return {
      [](Plan& p) { p.revision = {4}; },
      [](Plan& p) { p.mesh.axes[0].name = "pipe"; },
      [](Plan& p) { p.mesh.axes[0].size = 3; },
      [](Plan& p) {
        p.mesh.axes.push_back({"pipe", 1});
      },
      [](Plan& p) { p.communicators[0].name = "World"; },
      [](Plan& p) {
        p.communicators[0].ranks = {1, 0};
      },
      [](Plan& p) { p.communicators.push_back({}); },
      [](Plan& p) { p.parameters[0].name = "v"; },
      [](Plan& p) {
        p.parameters[0].shape = {2, 4};
      },
      [](Plan& p) { p.parameters[0].dtype = DType::kBF16; },
      [](Plan& p) { p.parameters[0].op = ReduceOp::kSum; },
      [](Plan& p) { p.parameters[0].axes = {"data"}; },
      [](Plan& p) { p.parameters[0].replicated_over = {"data"}; },
      [](Plan& p) { p.buckets[0].communicator = 1; },
      [](Plan& p) { p.buckets[0].dtype = DType::kF32; },
      [](Plan& p) { p.buckets[0].op = ReduceOp::kMean; },
      [](Plan& p) { p.buckets[0].slots[0].parameter = 1; },
      [](Plan& p) { p.buckets[0].slots[0].offset = 64; },
      [](Plan& p) { p.buckets[0].slots[0].count = 7; },
      [](Plan& p) { p.buckets[0].flags_offset = 31; },
      [](Plan& p) { p.buckets[0].total = 34; },
      [](Plan& p) { p.buckets[0].wire = DType::kBF16; },
      [](Plan& p) { p.buckets[0].wire = DType::kF16; },
      [](Plan& p) { p.buckets[0].sharded = true; },
      [](Plan& p) { p.buckets[0].leaves = 8; },
      [](Plan& p) { p.buckets[0].announced = true; },
      [](Plan& p) { p.parameters[0].stage = 2; },
      [](Plan& p) { p.pipeline.schedule = PipelineSchedule::kGPipe; },
      [](Plan& p) { p.pipeline.axis = "depth"; },
      [](Plan& p) { p.pipeline.micro_batches = 2; },
      [](Plan& p) { p.pipeline.virtual_stages = 2; },
      [](Plan& p) {
        p.pipeline.activations = {{{{DType::kF32, {4}}}}};
      },
      [](Plan& p) {
        p.pipeline.activations = {{{{DType::kF32, {5}}}}};
      },
      [](Plan& p) { p.pipeline.tags = PipelineTags::kPaired; },
      [](Plan& p) { p.pipeline.tag_base = 1; },
      [](Plan& p) { p.pipeline.shared = {"w"}; },
      [](Plan& p) { p.ranks[1].tasks[0].work = Work::kForward; },
      [](Plan& p) { p.ranks[1].tasks[0].stage = 0; },
      [](Plan& p) { p.ranks[1].tasks[0].micro_batch = 3; },
      [](Plan& p) { p.ranks[1].tasks[0].after.clear(); },
      [](Plan& p) {
        p.buckets[0].wire = DType::kF16;
        p.buckets[0].error_feedback = true;
      },
      [](Plan& p) { p.ranks.pop_back(); },
      [](Plan& p) { p.ranks[0].launch_order[0].lane = 1; },
      [](Plan& p) { p.ranks[0].launch_order[0].index = 1; },
      [](Plan& p) { p.ranks[1].launch_order.pop_back(); },
      [](Plan& p) { p.ranks[1].lanes[0].name = "pipe"; },
      [](Plan& p) { p.ranks[1].lanes[0].kind = LaneKind::kHalo; },
      [=](Plan& p) { transfer(p).kind = TransferKind::kRecv; },
      [=](Plan& p) { transfer(p).communicator = 1; },
      [=](Plan& p) { transfer(p).dtype = DType::kF64; },
      [=](Plan& p) { transfer(p).shape = {32}; },
      [=](Plan& p) { transfer(p).op = ReduceOp::kMax; },
      [=](Plan& p) { transfer(p).root = -1; },
      [=](Plan& p) { transfer(p).peer = -1; },
      [=](Plan& p) { transfer(p).tag = uint64_t{5} << 40; },
      [=](Plan& p) { transfer(p).bucket = -1; },
      [=](Plan& p) { transfer(p).group = 0; },
      [=](Plan& p) { transfer(p).after[0].lane = 2; },
      [=](Plan& p) { transfer(p).after[0].index = 2; },
      [=](Plan& p) { transfer(p).after.clear(); },
      [=](Plan& p) { transfer(p).after_task = -1; },
      [=](Plan& p) { transfer(p).buffer = 3; },
      [=](Plan& p) { transfer(p).divisor = 1; },
      [=](Plan& p) { std::swap(transfer(p).before, transfer(p).then); },
      [=](Plan& p) { transfer(p).before.clear(); },
      [=](Plan& p) { transfer(p).then.clear(); },
      [=](Plan& p) { transfer(p).before[0].kind = LocalKind::kCastFeedback; },
      [=](Plan& p) { transfer(p).before[0].from = DType::kF64; },
      [=](Plan& p) { transfer(p).before[0].to = DType::kBF16; },
      [=](Plan& p) { transfer(p).before[0].offset = 2; },
      [=](Plan& p) { transfer(p).before[0].count = 3; },
      [=](Plan& p) { transfer(p).before[0].leaf = -1; },
      [=](Plan& p) { transfer(p).before[0].divisor = 1; },
      [=](Plan& p) { transfer(p).halo = -1; },
      [](Plan& p) { p.halos.clear(); },
      [](Plan& p) { p.halos[0].name = "v"; },
      [](Plan& p) { p.halos[0].mesh.axes[0].name = "pipe"; },
      [](Plan& p) { p.halos[0].mesh.axes[0].size = 3; },
      [](Plan& p) {
        p.halos[0].ranks = {1, 0};
      },
      [](Plan& p) { p.halos[0].communicator = -1; },
      [](Plan& p) { p.halos[0].fields.clear(); },
      [](Plan& p) { p.halos[0].fields[0].dtype = DType::kU16; },
      [](Plan& p) { p.halos[0].fields[0].dims.clear(); },
      [=](Plan& p) { extent(p).axis = -1; },
      [=](Plan& p) { extent(p).bounds[1] = 2; },
      [=](Plan& p) { extent(p).low = 2; },
      [=](Plan& p) { extent(p).high = 1; },
      [=](Plan& p) { extent(p).edge = HaloEdge::kReplicate; },
      [=](Plan& p) { extent(p).constant = -7; },
      [=](Plan& p) { extent(p).constant = 0; },
      [=](Plan& p) { extent(p).constant = -0.0; },
      [](Plan& p) { p.ranks[1].halos.clear(); },
      [=](Plan& p) { routes(p).halo = 1; },
      [=](Plan& p) { routes(p).own.clear(); },
      [=](Plan& p) { routes(p).own[0].field = 0; },
      [=](Plan& p) { routes(p).own[0].dims.clear(); },
      [=](Plan& p) { routes(p).own[0].dims[0].in = 1; },
      [=](Plan& p) { routes(p).own[0].dims[0].out = 1; },
      [=](Plan& p) { routes(p).own[0].dims[0].count = 1; },
      [=](Plan& p) { routes(p).own[0].dims[0].step = -1; },
      [=](Plan& p) { routes(p).fills.clear(); },
      [=](Plan& p) { routes(p).fills[0].box.dims[0].out = 6; },
      [=](Plan& p) { routes(p).fills[0].value = 0.25; },
      [=](Plan& p) { routes(p).sends.clear(); },
      [=](Plan& p) { routes(p).sends[0].peer = 0; },
      [=](Plan& p) { routes(p).sends[0].bytes = 17; },
      [=](Plan& p) { routes(p).sends[0].boxes.clear(); },
      [=](Plan& p) { routes(p).sends[0].boxes[0].field = 3; },
      [=](Plan& p) { routes(p).receives[0].bytes = 33; },
      [=](Plan& p) { std::swap(routes(p).sends, routes(p).receives); },
      [](Plan& p) { p.state.clear(); },
      [](Plan& p) { p.state[0].name = "n"; },
      [](Plan& p) { p.state[0].dtype = DType::kI16; },
      [](Plan& p) { p.state[0].dims.clear(); },
      [](Plan& p) { p.state[0].dims[0].axes.clear(); },
      [](Plan& p) { p.state[0].dims[0].bounds[1] = 2; },
      [](Plan& p) { p.state[0].ranks.pop_back(); },
      [](Plan& p) { p.state[0].slices.pop_back(); },
      [](Plan& p) { p.state[0].slices[1].offset = 0; },
      [](Plan& p) { p.state[0].slices[1].count = 0; },
  };
}

TEST(DigestTest, NamesEveryFieldOfAPlan) {
  std::set<std::string> digests = {DigestOf(Sample())};
  size_t number = 0;
  for (const Change& change : ChangesOfEveryField()) {
    Plan changed = Sample();
    change(changed);
    EXPECT_TRUE(digests.insert(DigestOf(changed)).second)
        << "change " << number << " gives a digest seen before";
    ++number;
  }
}

TEST(DigestTest, DoesNotConfuseNeighbouringLists) {
  Plan left = Sample();
  Plan right = Sample();
  left.parameters[0].axes = {"a"};
  right.parameters[0].replicated_over = {"a"};
  EXPECT_NE(DigestOf(left), DigestOf(right));
  left.parameters[0].axes = {"ab", "c"};
  right = left;
  right.parameters[0].axes = {"a", "bc"};
  EXPECT_NE(DigestOf(left), DigestOf(right));
}

TEST(DigestTest, IsTheSameForTheSameInput) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_EQ(DigestOf(*Compile(RandomInput(seed))),
              DigestOf(*Compile(RandomInput(seed))));
  }
}

// Golden values, so that a change of the fields, of the compiler or of the hash
// is noticed: digests are journaled.
TEST(DigestTest, GoldenValues) {
  EXPECT_EQ(DigestOf(Plan{}), "211deb4a83e30dae2623edbce0cc292a");
  EXPECT_EQ(DigestOf(Sample()), "5d0255d4bb2c7e9a20dd3ba73550f905");
  const PlanInput input =
      Alike(MeshOf({{"data", 2}, {"pipe", 2}}),
            {{.name = "w", .shape = {8, 3}, .axes = {"data"}},
             {.name = "b", .shape = {8}, .dtype = DType::kBF16}});
  EXPECT_EQ(DigestOf(*Compile(input)), "09aa88f29cf7b1828de2869b71b6adfd");
}

}  // namespace
}  // namespace lockstep::plan

#include "plan/state/writes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/state/state.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int> AllRanks(const Mesh& mesh) {
  std::vector<int> ranks(static_cast<size_t>(mesh.WorldSize()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

StateDim Whole(int64_t extent) { return {.bounds = {0, extent}}; }

// "w" f32[10,4] of the header's drawing.
const Mesh kMesh = {{{"data", 3}, {"model", 2}}};
StateTensor Weights() {
  return {.name = "w",
          .dims = {{.axes = {"data"}, .bounds = EvenBounds(10, 3)}, Whole(4)},
          .ranks = AllRanks(kMesh)};
}

// Calls `visit` with each element of the box.
void ForEach(const TensorBox& box,
             const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> at(box.begin);
  if (std::any_of(box.shape.begin(), box.shape.end(),
                  [](int64_t extent) { return extent == 0; })) {
    return;
  }
  for (;;) {
    visit(at);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box.begin[d - 1] + box.shape[d - 1]) {
      at[d - 1] = box.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

TEST(StateTest, DividesEvenly) {
  EXPECT_THAT(EvenBounds(10, 3), ElementsAre(0, 4, 7, 10));
  EXPECT_THAT(EvenBounds(2, 3), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(EvenBounds(0, 1), ElementsAre(0, 0));
}

TEST(StateTest, BlocksHaveTheRanksThatHoldThem) {
  EXPECT_THAT(BlocksOf(Weights(), kMesh),
              ElementsAre(StateBlock{{{0, 0}, {4, 4}}, 0, {0, 1}},
                          StateBlock{{{4, 0}, {3, 4}}, 0, {2, 3}},
                          StateBlock{{{7, 0}, {3, 4}}, 0, {4, 5}}));
  StateTensor both = Weights();
  both.dims[0] = {.axes = {"model", "data"}, .bounds = EvenBounds(6, 6)};
  EXPECT_EQ(BlockOf(both, kMesh, 4), (TensorBox{{2, 0}, {1, 4}}));
  EXPECT_EQ(BlockOf(both, kMesh, 1), (TensorBox{{3, 0}, {1, 4}}));
}

TEST(StateTest, ABlockWithoutElementsIsNone) {
  StateTensor tensor = Weights();
  tensor.dims[0].bounds = {0, 0, 10, 10};
  EXPECT_THAT(BlocksOf(tensor, kMesh),
              ElementsAre(StateBlock{{{0, 0}, {10, 4}}, 0, {2, 3}}));
  EXPECT_EQ(Validate(tensor, kMesh), absl::OkStatus());
}

TEST(StateTest, NamesWhatIsWrong) {
  const auto fault = [](const std::function<void(StateTensor&)>& spoil) {
    StateTensor tensor = Weights();
    EXPECT_EQ(Validate(tensor, kMesh), absl::OkStatus());
    spoil(tensor);
    return std::string(Validate(tensor, kMesh).message());
  };
  EXPECT_EQ(fault([](auto& t) { t.dims[1].axes = {"pipe"}; }),
            "state \"w\": dimension 1 is cut over pipe; the mesh is "
            "data=3,model=2");
  EXPECT_EQ(fault([](auto& t) { t.dims[1].axes = {"data"}; }),
            "state \"w\": axis data cuts twice");
  EXPECT_EQ(fault([](auto& t) {
              t.dims[0].bounds = {0, 5, 10};
            }),
            "state \"w\": dimension 0 has 3 bounds; 3 blocks have 4");
  for (const std::vector<int64_t>& bounds :
       {std::vector<int64_t>{1, 4, 7, 10}, std::vector<int64_t>{0, 7, 4, 10}}) {
    EXPECT_EQ(fault([&](auto& t) { t.dims[0].bounds = bounds; }),
              "state \"w\": the bounds of dimension 0 do not rise from 0");
  }
  EXPECT_EQ(fault([](auto& t) { t.dims.resize(4, Whole(int64_t{1} << 30)); }),
            "state \"w\": its size overflows");
  EXPECT_EQ(fault([](auto& t) { t.ranks.clear(); }),
            "state \"w\": no rank holds it");
  EXPECT_EQ(fault([](auto& t) { t.ranks.push_back(6); }),
            "state \"w\": rank 6 is not in the mesh data=3,model=2");
  EXPECT_EQ(fault([](auto& t) {
              t.ranks = {0, 2, 2, 4};
            }),
            "state \"w\": its ranks do not rise: 2 follows 2");
  EXPECT_EQ(fault([](auto& t) {
              t.ranks = {0, 1, 4};
            }),
            "state \"w\": 12 of its 40 elements are held by no rank");
}

// A slice of a block of data=3,model=2, whose two ranks of model divide it.
StateTensor SlicedWeights() {
  StateTensor tensor = Weights();
  tensor.slices = {{0, 5}, {5, 11}, {0, 12}, {0, 12}, {0, 0}, {0, 12}};
  return tensor;
}

TEST(StateTest, ASliceIsBoxesThatAreContiguousInMemory) {
  EXPECT_THAT(
      BoxesOf(SlicedWeights(), kMesh, 0),
      ElementsAre(HeldBox{{{0, 0}, {1, 4}}, 0}, HeldBox{{{1, 0}, {1, 1}}, 4}));
  EXPECT_THAT(
      BoxesOf(SlicedWeights(), kMesh, 1),
      ElementsAre(HeldBox{{{1, 1}, {1, 3}}, 0}, HeldBox{{{2, 0}, {2, 4}}, 3}));
  EXPECT_THAT(BoxesOf(SlicedWeights(), kMesh, 2),
              ElementsAre(HeldBox{{{4, 0}, {3, 4}}, 0}));
  EXPECT_THAT(BoxesOf(SlicedWeights(), kMesh, 4), IsEmpty());
  StateTensor stage = Weights();
  stage.ranks = {0, 2, 4};
  EXPECT_THAT(BoxesOf(stage, kMesh, 1), IsEmpty());
  EXPECT_THAT(BoxesOf(stage, kMesh, 4),
              ElementsAre(HeldBox{{{7, 0}, {3, 4}}, 0}));
}

TEST(StateTest, SlicesThatAreEqualAreReplicas) {
  EXPECT_EQ(Validate(SlicedWeights(), kMesh), absl::OkStatus());
  EXPECT_THAT(BlocksOf(SlicedWeights(), kMesh),
              ElementsAre(StateBlock{{{0, 0}, {1, 4}}, 0, {0}},
                          StateBlock{{{1, 0}, {1, 1}}, 4, {0}},
                          StateBlock{{{1, 1}, {1, 3}}, 0, {1}},
                          StateBlock{{{2, 0}, {2, 4}}, 3, {1}},
                          StateBlock{{{4, 0}, {3, 4}}, 0, {2, 3}},
                          StateBlock{{{7, 0}, {3, 4}}, 0, {5}}));
}

TEST(StateTest, ScalarsAndEmptyTensorsAreHeld) {
  const StateTensor scalar{.name = "step", .ranks = {0, 3}};
  EXPECT_EQ(Validate(scalar, kMesh), absl::OkStatus());
  EXPECT_THAT(BoxesOf(scalar, kMesh, 3), ElementsAre(HeldBox{{{}, {}}, 0}));
  EXPECT_THAT(BlocksOf(scalar, kMesh),
              ElementsAre(StateBlock{{{}, {}}, 0, {0, 3}}));
  StateTensor empty{.name = "none", .dims = {Whole(0), Whole(4)}, .ranks = {1}};
  EXPECT_EQ(Validate(empty, kMesh), absl::OkStatus());
  EXPECT_THAT(BoxesOf(empty, kMesh, 1), IsEmpty());
  EXPECT_THAT(BlocksOf(empty, kMesh), IsEmpty());
  empty.slices = {{0, 0}};
  EXPECT_EQ(Validate(empty, kMesh), absl::OkStatus());
  EXPECT_THAT(BoxesOf(empty, kMesh, 1), IsEmpty());
}

TEST(StateTest, EverySliceOfABlockIsItsElementsInOrder) {
  const TensorBox block = {{1, 10, 100, 0}, {2, 3, 1, 4}};
  constexpr int64_t kCount = 24;
  for (int64_t begin = 0; begin <= kCount; ++begin) {
    for (int64_t end = begin; end <= kCount; ++end) {
      const auto boxes = BoxesIn(block, {begin, end - begin});
      EXPECT_LE(boxes.size(), 2 * block.shape.size() - 1);
      int64_t next = begin;
      for (const HeldBox& held : boxes) {
        EXPECT_EQ(held.offset, next - begin);
        ForEach(held.box, [&](const std::vector<int64_t>& at) {
          int64_t element = 0;
          for (size_t d = 0; d < at.size(); ++d) {
            element = element * block.shape[d] + at[d] - block.begin[d];
          }
          EXPECT_EQ(element, next++);
        });
      }
      EXPECT_EQ(next, end);
    }
  }
}

TEST(StateTest, NamesSlicesThatDoNotFillABlock) {
  const auto fault = [](const std::function<void(StateTensor&)>& spoil) {
    StateTensor tensor = SlicedWeights();
    spoil(tensor);
    return std::string(Validate(tensor, kMesh).message());
  };
  EXPECT_EQ(fault([](auto& t) { t.slices.pop_back(); }),
            "state \"w\": 5 slices of 6 ranks");
  EXPECT_EQ(fault([](auto& t) {
              t.slices[1] = {4, 12};
            }),
            "state \"w\": ranks 0 and 1 hold different slices that overlap: "
            "elements 0-4 and elements 4-15");
  EXPECT_EQ(fault([](auto& t) {
              t.slices[2] = {0, 11};
            }),
            "state \"w\": ranks 2 and 3 hold different slices that overlap: "
            "elements 0-10 and elements 0-11");
  EXPECT_EQ(fault([](auto& t) {
              t.slices[1] = {6, 10};
            }),
            "state \"w\": 1 of its 40 elements are held by no rank");
  EXPECT_EQ(fault([](auto& t) {
              t.slices[3] = {6, 7};
            }),
            "state \"w\": rank 3 holds elements 6-12 of a block of 12");
  EXPECT_EQ(fault([](auto& t) {
              t.slices[4] = {13, 0};
            }),
            "state \"w\": rank 4 holds no elements of a block of 12");
  EXPECT_THAT(fault([](auto& t) { t.dims.resize(9, Whole(1)); }),
              HasSubstr("9 dimensions; state has at most 8"));
}

TEST(WritesTest, EachBlockIsWrittenByOneOfItsRanks) {
  const auto writes = AssignWrites({Weights()}, kMesh);
  EXPECT_THAT(writes[0], ElementsAre(StateWrite{0, {{0, 0}, {4, 4}}, 0}));
  EXPECT_THAT(writes[2], ElementsAre(StateWrite{0, {{4, 0}, {3, 4}}, 0}));
  EXPECT_THAT(writes[4], ElementsAre(StateWrite{0, {{7, 0}, {3, 4}}, 0}));
  for (int rank : {1, 3, 5}) EXPECT_THAT(writes[rank], IsEmpty());
}

TEST(WritesTest, LargeBlocksAreDividedAmongTheirRanks) {
  const auto writes = AssignWrites({Weights()}, kMesh, /*part_bytes=*/32);
  EXPECT_THAT(writes[0], ElementsAre(StateWrite{0, {{0, 0}, {2, 4}}, 0}));
  EXPECT_THAT(writes[1], ElementsAre(StateWrite{0, {{2, 0}, {2, 4}}, 8}));
  EXPECT_THAT(writes[2], ElementsAre(StateWrite{0, {{4, 0}, {2, 4}}, 0}));
  EXPECT_THAT(writes[3], ElementsAre(StateWrite{0, {{6, 0}, {1, 4}}, 8}));
}

// --- Random states -----------------------------------------------------------

class RandomState {
 public:
  explicit RandomState(uint32_t seed) : random_(seed) {
    for (const char* name : {"data", "pipe", "model"}) {
      mesh.axes.push_back({name, Below(3) + 1});
    }
    const int count = 1 + Below(12);
    for (int i = 0; i < count; ++i) AddTensor(absl::StrCat("t", i));
  }

  Mesh mesh;
  std::vector<StateTensor> tensors;

 private:
  int Below(int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(random_);
  }

  void AddTensor(const std::string& name) {
    constexpr DType kDTypes[] = {DType::kU8, DType::kBF16, DType::kF64};
    StateTensor tensor{.name = name, .dtype = kDTypes[Below(3)]};
    std::vector<std::string> axes = {"data", "model"};
    std::shuffle(axes.begin(), axes.end(), random_);
    const int dims = Below(4);
    for (int d = 0; d < dims; ++d) {
      StateDim dim;
      while (!axes.empty() && Below(2) == 0) {
        dim.axes.push_back(axes.back());
        axes.pop_back();
      }
      dim.bounds = {0};
      for (int b = 0; b < Blocks(dim); ++b) {
        dim.bounds.push_back(dim.bounds.back() + Below(6));
      }
      tensor.dims.push_back(dim);
    }
    const int stage = Below(mesh.axes[1].size + 1);  // the last: all have it
    for (int rank = 0; rank < mesh.WorldSize(); ++rank) {
      if (stage == mesh.axes[1].size || mesh.CoordinatesOf(rank)[1] == stage) {
        tensor.ranks.push_back(rank);
      }
    }
    if (Below(2) == 0) Slice(&tensor);
    tensors.push_back(tensor);
  }

  // Divides each block among its ranks, some of which hold the same.
  void Slice(StateTensor* tensor) {
    tensor->slices.resize(tensor->ranks.size());
    std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>,
             std::vector<size_t>>
        members;
    for (size_t i = 0; i < tensor->ranks.size(); ++i) {
      const TensorBox block = BlockOf(*tensor, mesh, tensor->ranks[i]);
      members[{block.begin, block.shape}].push_back(i);
    }
    for (auto& [block, of] : members) {
      int64_t count = 1;
      for (const int64_t extent : block.second) count *= extent;
      std::shuffle(of.begin(), of.end(), random_);
      const size_t slices = 1 + Below(static_cast<int>(of.size()));
      std::vector<int64_t> bounds = {0, count};
      for (size_t i = 1; i < slices; ++i) {
        bounds.push_back(Below(static_cast<int>(count) + 1));
      }
      std::sort(bounds.begin(), bounds.end());
      for (size_t i = 0; i < of.size(); ++i) {
        const size_t slice = i % slices;
        tensor->slices[of[i]] = {bounds[slice],
                                 bounds[slice + 1] - bounds[slice]};
      }
    }
  }

  int Blocks(const StateDim& dim) const {
    int blocks = 1;
    for (const auto& axis : dim.axes) {
      blocks *= mesh.axes[mesh.AxisIndex(axis)].size;
    }
    return blocks;
  }

  std::mt19937 random_;
};

TEST(WritesTest, EveryElementIsWrittenOnceByARankThatHoldsIt) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const RandomState state(seed);
    for (const StateTensor& tensor : state.tensors) {
      ASSERT_EQ(Validate(tensor, state.mesh), absl::OkStatus());
    }
    const auto writes = AssignWrites(state.tensors, state.mesh, 16);
    std::vector<std::map<std::vector<int64_t>, int>> written(
        state.tensors.size());
    for (int rank = 0; rank < state.mesh.WorldSize(); ++rank) {
      for (const StateWrite& write : writes[rank]) {
        const StateTensor& tensor = state.tensors[write.tensor];
        ASSERT_THAT(tensor.ranks, testing::Contains(rank));
        std::map<std::vector<int64_t>, int64_t> held;  // where in memory
        for (const HeldBox& box : BoxesOf(tensor, state.mesh, rank)) {
          int64_t next = box.offset;
          ForEach(box.box, [&](const auto& at) { held[at] = next++; });
        }
        int64_t next = write.offset;
        ForEach(write.box, [&](const auto& at) {
          ASSERT_TRUE(held.contains(at));
          ASSERT_EQ(held[at], next++);
          ++written[write.tensor][at];
        });
      }
    }
    for (size_t t = 0; t < state.tensors.size(); ++t) {
      TensorBox whole;
      for (const StateDim& dim : state.tensors[t].dims) {
        whole.begin.push_back(0);
        whole.shape.push_back(dim.extent());
      }
      size_t elements = 0;
      ForEach(whole, [&](const auto& at) {
        ++elements;
        ASSERT_EQ(written[t][at], 1) << state.tensors[t].name;
      });
      EXPECT_EQ(written[t].size(), elements);
    }
  }
}

// All ranks hold all: the load differs by no more than one part.
TEST(WritesTest, ReplicatedStateIsWrittenInEqualShares) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Mesh mesh = {{{"data", 1 + round % 8}}};
    std::vector<StateTensor> tensors;
    for (int i = 0; i < 20; ++i) {
      const int64_t rows = std::uniform_int_distribution(1, 200)(random);
      tensors.push_back({.name = absl::StrCat("t", i),
                         .dtype = DType::kU8,
                         .dims = {Whole(rows), Whole(16)},
                         .ranks = AllRanks(mesh)});
    }
    const auto writes = AssignWrites(tensors, mesh, 256);
    int64_t most = 0, total = 0, largest = 0;
    for (const auto& of : writes) {
      int64_t bytes = 0;
      for (const StateWrite& write : of) {
        const int64_t part = write.box.shape[0] * write.box.shape[1];
        bytes += part;
        largest = std::max(largest, part);
      }
      most = std::max(most, bytes);
      total += bytes;
    }
    EXPECT_LE(most, total / mesh.WorldSize() + largest) << "round " << round;
  }
}

}  // namespace
}  // namespace lockstep::plan

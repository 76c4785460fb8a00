// <A x, y> = <x, A^T y> for every linear collective, in f64 with small
// integers, so that both sides are exact.

#include <cstring>
#include <numeric>
#include <random>

#include "client/collectives/shapes.h"
#include "gtest/gtest.h"
#include "plan/axis_groups.h"
#include "tests/conformance/collectives/run_collective.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep {
namespace {

using conformance::CaseTensor;
using conformance::RankTensors;
using plan::AxisGroups;
using Kind = AxisCollectiveKind;

class AdjointTest : public testing::Test {
 protected:
  int Draw(int below) {
    return static_cast<int>(random_() % static_cast<uint64_t>(below));
  }

  CaseTensor Values(const collectives::Shape& shape) {
    CaseTensor tensor{{DType::kF64, shape}, {}};
    for (size_t i = 0; i < collectives::ElementsOf(tensor.type); ++i) {
      Append(tensor, static_cast<double>(Draw(9) - 4));
    }
    return tensor;
  }

  template <typename T>
  static void Append(CaseTensor& tensor, T value) {
    const size_t at = tensor.bytes.size();
    tensor.bytes.resize(at + sizeof value);
    std::memcpy(&tensor.bytes[at], &value, sizeof value);
  }

  static CaseTensor Integers(const std::vector<int>& values) {
    CaseTensor tensor{{DType::kI32, {static_cast<int64_t>(values.size())}}, {}};
    for (const int value : values) Append(tensor, int32_t{value});
    return tensor;
  }

  Mesh DrawMesh() {
    static const Mesh kMeshes[] = {
        {{{"x", 1}}},           {{{"x", 2}}},
        {{{"x", 3}}},           {{{"x", 4}}},
        {{{"x", 2}, {"y", 2}}}, {{{"x", 3}, {"y", 2}}},
        {{{"x", 2}, {"y", 4}}}, {{{"x", 6}}}};
    return kMeshes[Draw(std::size(kMeshes))];
  }

  // Axes in any order, at times with index groups of equal size.
  void DrawGroups(const Mesh& mesh, AxisCollective* op) {
    op->axes.clear();
    for (const MeshAxis& axis : mesh.axes) op->axes.push_back(axis.name);
    std::shuffle(op->axes.begin(), op->axes.end(), random_);
    op->axes.resize(1 + Draw(static_cast<int>(op->axes.size())));
    const int size = SizeOver(mesh, op->axes);
    const int parts = 1 + Draw(size);
    op->index_groups.clear();
    if (size % parts != 0 || Draw(2) == 0) return;
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    op->index_groups.resize(parts);
    for (int i = 0; i < size; ++i) {
      op->index_groups[i % parts].push_back(order[i]);
    }
  }

  static int SizeOver(const Mesh& mesh, const std::vector<std::string>& axes) {
    return static_cast<int>(mesh.GroupsOver(axes)[0].size());
  }

  static double Dot(const std::vector<CaseTensor>& a,
                    const std::vector<CaseTensor>& b) {
    double sum = 0;
    EXPECT_EQ(a.size(), b.size());
    for (size_t t = 0; t < std::min(a.size(), b.size()); ++t) {
      if (a[t].type.dtype != DType::kF64) continue;  // indices
      EXPECT_EQ(a[t].type, b[t].type);
      for (size_t at = 0; at < a[t].bytes.size(); at += sizeof(double)) {
        double x, y;
        std::memcpy(&x, &a[t].bytes[at], sizeof x);
        std::memcpy(&y, &b[t].bytes[at], sizeof y);
        sum += x * y;
      }
    }
    return sum;
  }

  static double Dot(const RankTensors& a, const RankTensors& b) {
    double sum = 0;
    for (size_t r = 0; r < a.size(); ++r) sum += Dot(a[r], b[r]);
    return sum;
  }

  RankTensors Run(const Mesh& mesh, const AxisCollective& op,
                  const RankTensors& inputs) {
    auto outputs = conformance::RunCollective(mesh, op, inputs, groups_);
    EXPECT_TRUE(outputs.ok()) << Name(op.kind) << ": " << outputs.status();
    return outputs.ok() ? *std::move(outputs) : RankTensors();
  }

  // Cotangents with the types of `outputs`; with `equal` the same on all
  // members of a group.
  RankTensors Cotangents(const RankTensors& outputs, const AxisGroups& groups,
                         bool equal) {
    RankTensors cotangents(outputs.size());
    for (const std::vector<int>& members : groups.groups) {
      for (const int r : members) {
        if (equal && r != members[0]) {
          cotangents[r] = cotangents[members[0]];
          continue;
        }
        for (const CaseTensor& out : outputs[r]) {
          cotangents[r].push_back(Values(out.type.shape));
        }
      }
    }
    return cotangents;
  }

  // An output that all members have in common counts once.
  static double DotOnce(const RankTensors& a, const RankTensors& b,
                        const AxisGroups& groups) {
    double sum = 0;
    for (const std::vector<int>& members : groups.groups) {
      sum += Dot(a[members[0]], b[members[0]]);
    }
    return sum;
  }

  void Check(const Mesh& mesh, const AxisCollective& op,
             const RankTensors& inputs,
             std::optional<PsumTranspose> convention = {}) {
    SCOPED_TRACE(std::string(Name(op.kind)) + " over " + ToString(mesh));
    const bool common = convention == PsumTranspose::kIdentity ||
                        op.kind == Kind::kAllGatherInvariant;
    const auto transpose = TransposeOf(op, convention);
    ASSERT_TRUE(transpose.ok()) << transpose.status();
    const AxisGroups groups = *plan::GroupsOver(mesh, op.axes, op.index_groups);
    const RankTensors outputs = Run(mesh, op, inputs);
    ASSERT_FALSE(outputs.empty());
    const RankTensors cotangents = Cotangents(outputs, groups, common);
    const RankTensors back = Run(mesh, *transpose, cotangents);
    ASSERT_FALSE(back.empty());
    EXPECT_EQ(common ? DotOnce(outputs, cotangents, groups)
                     : Dot(outputs, cotangents),
              Dot(inputs, back));
  }

  collectives::Shape DrawShape(int rank_min) {
    collectives::Shape shape(rank_min + Draw(3));
    for (int64_t& extent : shape) extent = 1 + Draw(3);
    return shape;
  }

  // One or two tensors with the same shapes on all ranks; `axis` of each has
  // `extent` elements, or a multiple of it.
  RankTensors DrawInputs(const Mesh& mesh, int axis, int extent, bool tiled) {
    std::vector<collectives::Shape> shapes(1 + Draw(2));
    for (collectives::Shape& shape : shapes) {
      shape = DrawShape(2);
      if (extent == 0) continue;
      int64_t& at = shape[axis < 0 ? shape.size() + axis : axis];
      at = tiled ? at * extent : extent;
    }
    RankTensors inputs(mesh.WorldSize());
    for (auto& rank : inputs) {
      for (const collectives::Shape& shape : shapes) {
        rank.push_back(Values(shape));
      }
    }
    return inputs;
  }

  // scatter has inputs at its roots only.
  static void KeepAtRoots(const Mesh& mesh, const AxisCollective& op,
                          RankTensors* inputs) {
    const AxisGroups groups = *plan::GroupsOver(mesh, op.axes, op.index_groups);
    for (const std::vector<int>& members : groups.groups) {
      for (size_t i = 0; i < members.size(); ++i) {
        if (static_cast<int>(i) != op.root) (*inputs)[members[i]].clear();
      }
    }
  }

  // The forward call's inputs and the transpose's of all members of a group.
  void DrawRagged(const std::vector<int>& members, int slices, int64_t rows,
                  int64_t out_rows, RankTensors* inputs,
                  RankTensors* cotangents) {
    const int size = static_cast<int>(members.size());
    const int count = size * slices;
    using Table = std::vector<std::vector<int>>;
    Table in_at(size, std::vector<int>(count)), sent = in_at, out_at = in_at,
                                                received = in_at;
    for (int to = 0; to < size; ++to) {
      std::vector<std::pair<int, int>> order;  // (member, its slice)
      for (int from = 0; from < size; ++from) {
        for (int c = 0; c < slices; ++c) order.push_back({from, c});
      }
      std::shuffle(order.begin(), order.end(), random_);
      int at = 0;
      for (const auto& [from, c] : order) {
        const int rows_sent = Draw(4);
        sent[from][to * slices + c] = rows_sent;
        in_at[from][to * slices + c] =
            Draw(static_cast<int>(rows) - rows_sent + 1);
        out_at[from][to * slices + c] = at;
        received[to][from * slices + c] = rows_sent;
        at += rows_sent;
      }
    }
    for (int i = 0; i < size; ++i) {
      const CaseTensor operand = Values({rows, 2}),
                       output = Values({out_rows, 2}),
                       cotangent = Values({out_rows, 2});
      const CaseTensor vectors[] = {Integers(in_at[i]), Integers(sent[i]),
                                    Integers(out_at[i]), Integers(received[i])};
      auto& forward = (*inputs)[members[i]];
      auto& back = (*cotangents)[members[i]];
      forward = {operand, output};
      back = {cotangent};
      for (const CaseTensor& vector : vectors) {
        forward.push_back(vector);
        back.push_back(vector);
      }
      back.push_back(operand);
    }
  }

  int GroupSize(const Mesh& mesh, const AxisCollective& op) {
    return static_cast<int>(
        plan::GroupsOver(mesh, op.axes, op.index_groups)->groups[0].size());
  }

  transport::InprocHub hub_;
  conformance::Groups groups_{
      [this](int) -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        return transport::MakeInprocTransport(&hub_);
      }};
  std::mt19937_64 random_{20261123};
};

constexpr int kRounds = 12;

TEST_F(AdjointTest, OfReductionsInBothConventions) {
  for (int round = 0; round < kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kPsum};
    DrawGroups(mesh, &op);
    const RankTensors inputs = DrawInputs(mesh, 0, 0, false);
    Check(mesh, op, inputs, PsumTranspose::kSum);
    Check(mesh, op, inputs, PsumTranspose::kIdentity);
  }
}

TEST_F(AdjointTest, OfAMeanOfTwoAndFour) {
  for (const int size : {2, 4}) {
    const Mesh mesh{{{"x", size}}};
    const AxisCollective op{.kind = Kind::kPmean, .axes = {"x"}};
    const RankTensors inputs = DrawInputs(mesh, 0, 0, false);
    Check(mesh, op, inputs, PsumTranspose::kSum);
    Check(mesh, op, inputs, PsumTranspose::kIdentity);
  }
}

TEST_F(AdjointTest, OfGathersAndScatters) {
  // own_slice is checked as the transpose of all_gather_invariant.
  for (const Kind kind : {Kind::kAllGather, Kind::kAllGatherInvariant,
                          Kind::kPsumScatter, Kind::kGather, Kind::kScatter}) {
    for (int round = 0; round < kRounds; ++round) {
      const Mesh mesh = DrawMesh();
      AxisCollective op{
          .kind = kind, .axis = Draw(4) - 2, .tiled = Draw(2) == 0};
      DrawGroups(mesh, &op);
      const int size = GroupSize(mesh, op);
      op.root = Draw(size);
      const bool splits = kind == Kind::kPsumScatter || kind == Kind::kScatter;
      RankTensors inputs =
          DrawInputs(mesh, op.axis, splits ? size : 0, op.tiled);
      if (kind == Kind::kScatter) KeepAtRoots(mesh, op, &inputs);
      Check(mesh, op, inputs);
    }
  }
}

TEST_F(AdjointTest, OfExchanges) {
  for (int round = 0; round < 3 * kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kAllToAll,
                      .axis = Draw(4) - 2,
                      .concat_axis = Draw(4) - 2,
                      .tiled = Draw(2) == 0};
    DrawGroups(mesh, &op);
    Check(mesh, op, DrawInputs(mesh, op.axis, GroupSize(mesh, op), op.tiled));
    op.kind = Kind::kPswapaxes;
    op.tiled = false;
    Check(mesh, op, DrawInputs(mesh, op.axis, GroupSize(mesh, op), false));
  }
}

TEST_F(AdjointTest, OfPermutations) {
  for (int round = 0; round < kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kPshuffle};
    DrawGroups(mesh, &op);
    const int size = GroupSize(mesh, op);
    op.sources.resize(size);
    std::iota(op.sources.begin(), op.sources.end(), 0);
    std::shuffle(op.sources.begin(), op.sources.end(), random_);
    const RankTensors inputs = DrawInputs(mesh, 0, 0, false);
    Check(mesh, op, inputs);
    AxisCollective partial{.kind = Kind::kPpermute,
                           .axes = op.axes,
                           .index_groups = op.index_groups};
    for (int i = 0; i < size; ++i) {
      if (Draw(3) > 0) partial.pairs.push_back({op.sources[i], i});
    }
    Check(mesh, partial, inputs);
  }
}

TEST_F(AdjointTest, OfOperationsWithARoot) {
  for (int round = 0; round < kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kPbroadcast};
    DrawGroups(mesh, &op);
    op.root = Draw(GroupSize(mesh, op));
    const RankTensors inputs = DrawInputs(mesh, 0, 0, false);
    Check(mesh, op, inputs);
    op.kind = Kind::kReduce;
    Check(mesh, op, inputs);
  }
}

TEST_F(AdjointTest, OfPgather) {
  for (int round = 0; round < kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kPgather};
    DrawGroups(mesh, &op);
    const int size = GroupSize(mesh, op);
    RankTensors inputs(mesh.WorldSize()), cotangents(mesh.WorldSize());
    const collectives::Shape shape = DrawShape(1);
    const int picks = 1 + Draw(5);
    for (size_t r = 0; r < inputs.size(); ++r) {
      std::vector<int> indices(picks);
      for (int& index : indices) index = Draw(size);
      inputs[r] = {Values(shape), Integers(indices)};
      collectives::Shape picked = shape;
      picked.insert(picked.begin(), picks);
      cotangents[r] = {Values(picked), Integers(indices)};
    }
    const RankTensors outputs = Run(mesh, op, inputs);
    const RankTensors back = Run(mesh, *TransposeOf(op), cotangents);
    ASSERT_FALSE(outputs.empty() || back.empty());
    double left = 0, right = 0;
    for (size_t r = 0; r < inputs.size(); ++r) {
      left += Dot({outputs[r][0]}, {cotangents[r][0]});
      right += Dot({inputs[r][0]}, {back[r][0]});
    }
    EXPECT_EQ(left, right);
  }
}

// Slices of the operand may overlap, and be empty; those of the output are
// apart, in random order.
TEST_F(AdjointTest, OfRaggedExchanges) {
  for (int round = 0; round < 4 * kRounds; ++round) {
    const Mesh mesh = DrawMesh();
    AxisCollective op{.kind = Kind::kRaggedAllToAll};
    DrawGroups(mesh, &op);
    const AxisGroups groups = *plan::GroupsOver(mesh, op.axes, op.index_groups);
    const int size = static_cast<int>(groups.groups[0].size());
    const int slices = 1 + Draw(2);
    const int64_t rows = 5, out_rows = size * slices * 3 + 2;
    RankTensors inputs(mesh.WorldSize()), cotangents(mesh.WorldSize());
    for (const std::vector<int>& members : groups.groups) {
      DrawRagged(members, slices, rows, out_rows, &inputs, &cotangents);
    }
    const RankTensors outputs = Run(mesh, op, inputs);
    const RankTensors back = Run(mesh, *TransposeOf(op), cotangents);
    ASSERT_FALSE(outputs.empty() || back.empty());
    double left = 0, right = 0;
    for (size_t r = 0; r < inputs.size(); ++r) {
      left += Dot({outputs[r][0]}, {cotangents[r][0]});
      right += Dot({inputs[r][0], inputs[r][1]}, back[r]);
    }
    EXPECT_EQ(left, right);
  }
}

}  // namespace
}  // namespace lockstep

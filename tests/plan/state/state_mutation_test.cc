// Random changes of state, judged by going through all elements: the verifier
// refuses a plan exactly if the state is wrong.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"

namespace lockstep::plan {
namespace {

using Element = std::vector<int64_t>;

// What a rank holds, by the definition: the block by its coordinates, and of it
// the elements of the slice, in row-major order.
std::vector<Element> HeldBy(const StateTensor& tensor, const Mesh& mesh,
                            size_t holder) {
  const std::vector<int> coordinates = mesh.CoordinatesOf(tensor.ranks[holder]);
  std::vector<Element> elements = {{}};
  for (const StateDim& dim : tensor.dims) {
    size_t block = 0;
    for (const std::string& axis : dim.axes) {
      const auto a = static_cast<size_t>(mesh.AxisIndex(axis));
      block = block * static_cast<size_t>(mesh.axes[a].size) +
              static_cast<size_t>(coordinates[a]);
    }
    std::vector<Element> longer;
    for (const Element& element : elements) {
      for (int64_t i = dim.bounds[block]; i < dim.bounds[block + 1]; ++i) {
        longer.push_back(element);
        longer.back().push_back(i);
      }
    }
    elements = std::move(longer);
  }
  if (tensor.slices.empty()) return elements;
  const StateSlice& slice = tensor.slices[holder];
  return {elements.begin() + slice.offset,
          elements.begin() + slice.offset + slice.count};
}

bool IsWellFormed(const StateTensor& tensor, const Mesh& mesh) {
  std::set<std::string> cut;
  for (const StateDim& dim : tensor.dims) {
    size_t blocks = 1;
    for (const std::string& axis : dim.axes) {
      if (mesh.AxisIndex(axis) < 0 || !cut.insert(axis).second) return false;
      blocks *= static_cast<size_t>(
          mesh.axes[static_cast<size_t>(mesh.AxisIndex(axis))].size);
    }
    if (dim.bounds.size() != blocks + 1 || dim.bounds[0] != 0) return false;
    if (!std::is_sorted(dim.bounds.begin(), dim.bounds.end())) return false;
  }
  const std::set<int> ranks(tensor.ranks.begin(), tensor.ranks.end());
  return !ranks.empty() && ranks.size() == tensor.ranks.size() &&
         std::is_sorted(tensor.ranks.begin(), tensor.ranks.end()) &&
         *ranks.begin() >= 0 && *ranks.rbegin() < mesh.WorldSize() &&
         (tensor.slices.empty() || tensor.slices.size() == ranks.size());
}

bool SlicesFit(const StateTensor& tensor, const Mesh& mesh) {
  StateTensor whole = tensor;
  whole.slices.clear();
  for (size_t i = 0; i < tensor.slices.size(); ++i) {
    const auto count = static_cast<int64_t>(HeldBy(whole, mesh, i).size());
    const StateSlice& slice = tensor.slices[i];
    if (slice.offset < 0 || slice.count < 0 ||
        slice.offset + slice.count > count) {
      return false;
    }
  }
  return true;
}

// Every element is held, and ranks that share one hold the same.
bool IsRight(const StateTensor& tensor, const Mesh& mesh) {
  if (!IsWellFormed(tensor, mesh) || !SlicesFit(tensor, mesh)) return false;
  std::map<Element, size_t> first;  // holder
  std::vector<std::vector<Element>> held;
  for (size_t i = 0; i < tensor.ranks.size(); ++i) {
    held.push_back(HeldBy(tensor, mesh, i));
    for (const Element& element : held[i]) {
      const size_t other = first.emplace(element, i).first->second;
      if (held[other] != held[i]) return false;
    }
  }
  size_t elements = 1;
  for (const StateDim& dim : tensor.dims) {
    elements *= static_cast<size_t>(dim.extent());
  }
  return first.size() == elements;
}

class StateMutator {
 public:
  explicit StateMutator(uint32_t seed) : random_(seed) {}

  void Change(StateTensor* tensor) {
    switch (Below(8)) {
      case 0: {
        if (tensor->dims.empty()) return;
        StateDim& dim = tensor->dims[Below(tensor->dims.size())];
        if (!dim.bounds.empty()) dim.bounds[Below(dim.bounds.size())] += Step();
        return;
      }
      case 1: {
        if (tensor->dims.empty()) return;
        StateDim& dim = tensor->dims[Below(tensor->dims.size())];
        if (Below(2) == 0 || dim.axes.empty()) {
          dim.axes.push_back(kAxes[Below(3)]);
        } else {
          dim.axes.pop_back();
        }
        return;
      }
      case 2: {
        const size_t at = Below(tensor->ranks.size());
        tensor->ranks.erase(tensor->ranks.begin() + static_cast<int>(at));
        if (!tensor->slices.empty() && Below(4) > 0) {
          tensor->slices.erase(tensor->slices.begin() + static_cast<int>(at));
        }
        return;
      }
      case 3: tensor->ranks[Below(tensor->ranks.size())] += Step(); return;
      case 4:
      case 5:
        if (tensor->slices.empty()) return;
        tensor->slices[Below(tensor->slices.size())].offset += Step();
        return;
      case 6:
        if (tensor->slices.empty()) return;
        tensor->slices[Below(tensor->slices.size())].count += Step();
        return;
      default:
        if (tensor->slices.size() < 2) return;
        std::swap(tensor->slices[Below(tensor->slices.size())],
                  tensor->slices[Below(tensor->slices.size())]);
    }
  }

 private:
  static constexpr const char* kAxes[] = {"data", "model", "pipe"};
  size_t Below(size_t limit) { return random_() % limit; }
  int Step() { return Below(2) == 0 ? 1 : -1; }

  std::mt19937 random_;
};

std::vector<StateTensor> GoodState() {
  return {
      {.name = "blocks",
       .dims = {{.axes = {"data"}, .bounds = {0, 2, 3}}, {.bounds = {0, 2}}},
       .ranks = {0, 1, 2, 3}},
      {.name = "grid",
       .dims = {{.axes = {"model"}, .bounds = {0, 2, 4}},
                {.axes = {"data"}, .bounds = {0, 0, 3}}},
       .ranks = {0, 1, 2, 3}},
      {.name = "slices",
       .dims = {{.bounds = {0, 2}}, {.bounds = {0, 3}}},
       .ranks = {0, 1, 2, 3},
       .slices = {{0, 1}, {1, 3}, {4, 2}, {1, 3}}},
      {.name = "sliced blocks",
       .dims = {{.axes = {"model"}, .bounds = {0, 3, 5}}},
       .ranks = {0, 1, 2, 3},
       .slices = {{0, 2}, {1, 1}, {2, 1}, {0, 1}}},
      {.name = "scalar", .ranks = {1, 2}},
  };
}

TEST(StateMutationTest, TheVerifierRefusesExactlyWhatIsWrong) {
  PlanInput input{.mesh = {{{"data", 2}, {"model", 2}}}};
  input.registrations.resize(4);
  const Plan empty = *Compile(input);
  int right = 0, wrong = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 choice(seed);
    Plan plan = empty;
    const std::vector<StateTensor> good = GoodState();
    plan.state = {good[choice() % good.size()]};
    ASSERT_TRUE(IsRight(plan.state[0], plan.mesh));
    ASSERT_EQ(Verify(plan), absl::OkStatus());
    StateMutator mutator(seed);
    for (uint32_t i = choice() % 3 + 1; i > 0 && !plan.state[0].ranks.empty();
         --i) {
      mutator.Change(&plan.state[0]);
    }
    const bool is_right = IsRight(plan.state[0], plan.mesh);
    ASSERT_EQ(Verify(plan).ok(), is_right) << Verify(plan);
    ++(is_right ? right : wrong);
  }
  EXPECT_GT(right, 400);
  EXPECT_GT(wrong, 1000);
}

}  // namespace
}  // namespace lockstep::plan

// Random declarations of halo exchanges, all of them valid.

#ifndef LOCKSTEP_TESTS_PLAN_HALO_RANDOM_HALOS_H_
#define LOCKSTEP_TESTS_PLAN_HALO_RANDOM_HALOS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/halo_spec.h"
#include "plan/compile.h"
#include "protocol/halo.h"

namespace lockstep::plan {

// An input without parameters, of 1 to 8 ranks over 1 to 3 axes. Every rank
// declares one or two exchanges, in random order. The groups of an exchange
// differ in their tensors: dtype, shape, widths and edges.
class RandomHalos {
 public:
  explicit RandomHalos(uint64_t seed) : random_(seed) {}

  PlanInput Input() {
    PlanInput input{.mesh = SmallMesh()};
    const int world = input.mesh.WorldSize();
    input.registrations.resize(world);
    input.halos.resize(world);
    const int exchanges = 1 + Below(2);
    for (int i = 0; i < exchanges; ++i) {
      DeclareAll(input, absl::StrCat("exchange ", i));
    }
    for (std::vector<HaloSpec>& declared : input.halos) {
      std::shuffle(declared.begin(), declared.end(), random_);
    }
    return input;
  }

 private:
  // A dimension as all members of a group have it, and the sizes of its blocks.
  struct GroupDim {
    HaloDim dim;
    std::vector<int64_t> blocks;
  };

  int Below(int bound) {
    return static_cast<int>(random_() % static_cast<uint64_t>(bound));
  }

  Mesh SmallMesh() {
    for (;;) {
      Mesh mesh;
      const int axes = 1 + Below(3);
      for (int i = 0; i < axes; ++i) {
        mesh.axes.push_back({absl::StrCat("a", i), 1 + Below(4)});
      }
      if (mesh.WorldSize() <= 8) return mesh;
    }
  }

  void DeclareAll(PlanInput& input, const std::string& name) {
    std::vector<std::string> cutting;
    for (const MeshAxis& axis : input.mesh.axes) {
      if (Below(4) != 0) cutting.push_back(axis.name);
    }
    // Which axes cut which tensor: the first tensor is cut by all that cut no
    // other one.
    std::vector<std::vector<std::string>> axes_of(1 + Below(3));
    for (const std::string& axis : cutting) {
      bool cuts = false;
      for (size_t t = 1; t < axes_of.size(); ++t) {
        if (Below(2) != 0) continue;
        axes_of[t].push_back(axis);
        cuts = true;
      }
      if (!cuts || Below(2) == 0) axes_of[0].push_back(axis);
    }
    for (const std::vector<int>& group : input.mesh.GroupsOver(cutting)) {
      std::vector<HaloSpec> specs(group.size(), HaloSpec{name, {}});
      for (const std::vector<std::string>& axes : axes_of) {
        AddTensor(input.mesh, group, axes, &specs);
      }
      for (size_t m = 0; m < group.size(); ++m) {
        input.halos[group[m]].push_back(std::move(specs[m]));
      }
    }
  }

  void AddTensor(const Mesh& mesh, const std::vector<int>& group,
                 std::vector<std::string> axes, std::vector<HaloSpec>* specs) {
    std::shuffle(axes.begin(), axes.end(), random_);
    const int at_least = std::max<int>(1, static_cast<int>(axes.size()));
    const int dims = at_least + Below(5 - at_least);
    axes.resize(dims);
    std::shuffle(axes.begin(), axes.end(), random_);
    std::vector<GroupDim> all;
    // Fields are small, so that a case takes less than a millisecond.
    int64_t cells = 0;
    do {
      all.clear();
      cells = 1;
      for (int d = 0; d < dims; ++d) {
        all.push_back(AnyDim(mesh, d, axes[d]));
        int64_t extent = all[d].dim.low + all[d].dim.high;
        for (const int64_t block : all[d].blocks) extent += block;
        cells *= extent;
      }
    } while (cells > 1500);
    const DType dtype = kAllDTypes[Below(std::size(kAllDTypes))];
    for (size_t m = 0; m < group.size(); ++m) {
      (*specs)[m].tensors.push_back(
          TensorOf(mesh.CoordinatesOf(group[m]), mesh, dtype, all));
    }
  }

  GroupDim AnyDim(const Mesh& mesh, int d, const std::string& axis) {
    GroupDim made{{.dim = d, .axis = axis}, {}};
    const int blocks = axis.empty() ? 1 : mesh.axes[mesh.AxisIndex(axis)].size;
    int64_t size = 0;
    for (int b = 0; b < blocks; ++b) {
      made.blocks.push_back(1 + Below(4));
      size += made.blocks.back();
    }
    made.dim.edge = kAllHaloEdges[Below(std::size(kAllHaloEdges))];
    // Most are narrow; some are wider than the field.
    const int widest = Below(4) == 0 ? 8 : 2;
    int64_t bound = widest;
    if (made.dim.edge == HaloEdge::kReflect) bound = std::min(bound, size - 1);
    made.dim.low = Below(static_cast<int>(bound) + 1);
    made.dim.high = Below(static_cast<int>(bound) + 1);
    made.dim.constant = Below(2);  // of any dtype
    return made;
  }

  HaloTensor TensorOf(const std::vector<int>& coordinates, const Mesh& mesh,
                      DType dtype, const std::vector<GroupDim>& all) {
    HaloTensor tensor{.dtype = dtype};
    const int dims = static_cast<int>(all.size());
    for (const GroupDim& given : all) {
      const int axis = mesh.AxisIndex(given.dim.axis);
      tensor.shape.push_back(
          given.blocks[given.dim.axis.empty() ? 0 : coordinates[axis]]);
      const bool is_plain =
          given.dim.axis.empty() && given.dim.low + given.dim.high == 0;
      if (is_plain && Below(2) == 0) continue;
      tensor.dims.push_back(given.dim);
      if (Below(2) == 0) tensor.dims.back().dim -= dims;
    }
    std::shuffle(tensor.dims.begin(), tensor.dims.end(), random_);
    return tensor;
  }

  std::mt19937_64 random_;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_HALO_RANDOM_HALOS_H_

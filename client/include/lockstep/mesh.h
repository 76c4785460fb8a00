// A mesh of ranks: named axes with sizes; each rank is a point.
//
// Row-major, the last axis fastest: in data=2,pipe=3 rank 4 is data 1, pipe 1.
//
//            pipe 0  pipe 1  pipe 2
//   data 0      0       1       2
//   data 1      3       4       5

#ifndef LOCKSTEP_MESH_H_
#define LOCKSTEP_MESH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/export.h"

namespace lockstep {

struct MeshAxis {
  std::string name;  // a letter, then letters, digits and _
  int size = 1;      // at least 1
  bool operator==(const MeshAxis&) const = default;
};

struct LOCKSTEP_EXPORT Mesh {
  std::vector<MeshAxis> axes;

  // The number of ranks; 1 for a mesh without axes.
  int WorldSize() const;

  // Position of the named axis in `axes`, or -1.
  int AxisIndex(absl::string_view name) const;

  // `rank` must be in [0, WorldSize()).
  std::vector<int> CoordinatesOf(int rank) const;

  // One coordinate per axis, each in range.
  int RankAt(const std::vector<int>& coordinates) const;

  // The ranks that differ from `rank` only in the named axes, including `rank`.
  // The order is row-major over `names`: the last named axis is fastest.
  // Without names: `rank` only. The names must be distinct axes of the mesh.
  std::vector<int> GroupOf(int rank,
                           const std::vector<std::string>& names) const;

  // All groups of GroupOf, each once, ordered by first rank.
  std::vector<std::vector<int>> GroupsOver(
      const std::vector<std::string>& names) const;

  bool operator==(const Mesh&) const = default;
};

// Conversion from and to text: "data=2,pipe=3". InvalidArgument reports an
// empty or repeated name, a size below 1, a world of more than 1,048,576 ranks.
LOCKSTEP_EXPORT absl::StatusOr<Mesh> ParseMesh(absl::string_view text);
LOCKSTEP_EXPORT std::string ToString(const Mesh& mesh);
LOCKSTEP_EXPORT absl::Status Validate(const Mesh& mesh);

}  // namespace lockstep

#endif  // LOCKSTEP_MESH_H_

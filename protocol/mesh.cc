#include "lockstep/mesh.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/text/utf8.h"

namespace lockstep {
namespace {

constexpr int64_t kWorldSizeMax = 1 << 20;
constexpr size_t kAxesMax = 64;  // limit of a message
constexpr size_t kAxisNameBytesMax = 63;

// For a message: printable, and shortened.
std::string Shown(absl::string_view text) {
  return Printable(absl::Utf8SafeCEscape(text.substr(0, 100)));
}

bool IsAxisName(absl::string_view name) {
  return !name.empty() && name.size() <= kAxisNameBytesMax &&
         absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

std::vector<int> AxisIndicesOf(const Mesh& mesh,
                               const std::vector<std::string>& names) {
  std::vector<int> indices;
  for (const std::string& name : names) {
    const int index = mesh.AxisIndex(name);
    Check(index >= 0, "a group is asked for over no axis of the mesh");
    Check(std::find(indices.begin(), indices.end(), index) == indices.end(),
          "a group is asked for over an axis twice");
    indices.push_back(index);
  }
  return indices;
}

// The product of all sizes, or some value above the maximum if it is exceeded.
int64_t RanksIn(const std::vector<MeshAxis>& axes) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : axes) {
    if (ranks <= kWorldSizeMax) ranks *= axis.size;
  }
  return ranks;
}

}  // namespace

int Mesh::WorldSize() const {
  const int64_t ranks = RanksIn(axes);
  return static_cast<int>(std::clamp<int64_t>(ranks, 0, kWorldSizeMax + 1));
}

int Mesh::AxisIndex(absl::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> Mesh::CoordinatesOf(int rank) const {
  Check(rank >= 0 && rank < WorldSize(), "rank is outside the mesh");
  std::vector<int> coordinates(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    coordinates[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return coordinates;
}

int Mesh::RankAt(const std::vector<int>& coordinates) const {
  Check(coordinates.size() == axes.size(), "one coordinate per mesh axis");
  int rank = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Check(coordinates[i] >= 0 && coordinates[i] < axes[i].size,
          "coordinate is outside its mesh axis");
    rank = rank * axes[i].size + coordinates[i];
  }
  return rank;
}

std::vector<int> Mesh::GroupOf(int rank,
                               const std::vector<std::string>& names) const {
  const std::vector<int> indices = AxisIndicesOf(*this, names);
  std::vector<int> coordinates = CoordinatesOf(rank);
  for (const int index : indices) coordinates[index] = 0;

  std::vector<int> group;
  for (;;) {
    group.push_back(RankAt(coordinates));
    // Counts up like an odometer; the last named axis changes fastest.
    size_t wheel = indices.size();
    while (wheel > 0) {
      const int index = indices[wheel - 1];
      if (++coordinates[index] < axes[index].size) break;
      coordinates[index] = 0;
      --wheel;
    }
    if (wheel == 0) return group;
  }
}

std::vector<std::vector<int>> Mesh::GroupsOver(
    const std::vector<std::string>& names) const {
  std::vector<std::vector<int>> groups;
  std::vector<bool> placed(WorldSize(), false);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    if (placed[rank]) continue;
    groups.push_back(GroupOf(rank, names));
    for (const int member : groups.back()) placed[member] = true;
  }
  return groups;
}

absl::StatusOr<Mesh> ParseMesh(absl::string_view text) {
  Mesh mesh;
  if (absl::StripAsciiWhitespace(text).empty()) return mesh;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    MeshAxis axis{std::string(absl::StripAsciiWhitespace(halves.first))};
    if (!absl::SimpleAtoi(halves.second, &axis.size)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("\"%s\" is not an axis and its size, such as data=4",
                          Shown(absl::StripAsciiWhitespace(part))));
    }
    mesh.axes.push_back(std::move(axis));
  }
  if (absl::Status valid = Validate(mesh); !valid.ok()) return valid;
  return mesh;
}

std::string ToString(const Mesh& mesh) {
  return absl::StrJoin(mesh.axes, ",",
                       [](std::string* out, const MeshAxis& axis) {
                         absl::StrAppend(out, axis.name, "=", axis.size);
                       });
}

absl::Status Validate(const Mesh& mesh) {
  if (mesh.axes.size() > kAxesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d axes are more than %d", mesh.axes.size(), kAxesMax));
  }
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (!IsAxisName(axis.name)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "\"%s\" is not the name of an axis: a letter, then letters, digits "
          "and _, at most %d",
          Shown(axis.name), kAxisNameBytesMax));
    }
    if (axis.size < 1) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "axis %s has size %d, it must be at least 1", axis.name, axis.size));
    }
    if (mesh.AxisIndex(axis.name) != static_cast<int>(i)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("axis %s is there twice", axis.name));
    }
  }
  if (RanksIn(mesh.axes) > kWorldSizeMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "mesh %s has more than %d ranks", ToString(mesh), kWorldSizeMax));
  }
  return absl::OkStatus();
}

}  // namespace lockstep

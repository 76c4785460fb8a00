#include "examples/weather/wind.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::weather {
namespace {

constexpr double kWave = 4;
constexpr double kTurn = 7.848e-6;  // w and k, per second
// 5e4 m2/s on a sphere of the Earth's radius, per second.
constexpr double kDiffusivity = 5e4 / (6.371e6 * 6.371e6);

constexpr double kRadians = kDegrees * std::numbers::pi / 180;

// The latitude of the southern edge of a row. Beyond a pole: the pole.
double SouthernEdge(int row) {
  constexpr double kPole = std::numbers::pi / 2;
  return std::clamp(kPole - (row + 0.5) * kRadians, -kPole, kPole);
}

// At the southeastern corner of a cell. A column beyond the last one is the
// column that it repeats, so that its bits are the same.
double StreamAt(int row, int column) {
  const double lat = SouthernEdge(row);
  const int wrapped = (column + kColumns) % kColumns;
  const double lon = (wrapped + 0.5) * kRadians;
  return kTurn * std::sin(lat) *
         (std::pow(std::cos(lat), kWave) * std::cos(kWave * lon) - 1);
}

}  // namespace

double AreaOf(int row) {
  return (std::sin(SouthernEdge(row - 1)) - std::sin(SouthernEdge(row))) *
         kRadians;
}

EdgeFlows FlowsOf(const Tile& tile) {
  EdgeFlows flows;
  for (int r = -kHalo; r < tile.rows + kHalo; ++r) {
    const int row = tile.row + r;
    for (int c = -kHalo; c < tile.columns + kHalo; ++c) {
      const int column = tile.column + c;
      const double southeast = StreamAt(row, column);
      flows.east.push_back(static_cast<float>(
          kStepSeconds * (southeast - StreamAt(row - 1, column))));
      flows.south.push_back(static_cast<float>(
          kStepSeconds * (StreamAt(row, column - 1) - southeast)));
    }
    const bool is_on_globe = row >= 0 && row < kRows;
    const double area = AreaOf(row);
    // Along a row the diffusivity falls with the square of the row's length:
    // else the steps would have to be short at the poles.
    flows.east_diffusion.push_back(static_cast<float>(
        kStepSeconds * kDiffusivity * area / (kRadians * kRadians)));
    flows.south_diffusion.push_back(static_cast<float>(
        kStepSeconds * kDiffusivity * std::cos(SouthernEdge(row))));
    flows.per_area.push_back(is_on_globe ? static_cast<float>(1 / area) : 0);
  }
  return flows;
}

}  // namespace lockstep::weather

// How much of the fields flows through the edges of cells in a step.
//
// The wind is a Rossby-Haurwitz wave of number 4, a rotation of the air as a
// solid with a wave on it (Williamson et al., A standard test set for numerical
// approximations to the shallow water equations, 1992, case 6; here it stands
// still). Its stream function, in squared radians of the sphere per second, is
//
//   psi = -w sin(lat) + k cos(lat)^4 sin(lat) cos(4 lon)
//
// What flows through an edge is the difference of psi between its two corners,
// so as much air flows into each cell as out of it, and nothing over the poles.
// All values are a function of a cell's place on the globe: each worker
// computes the same bits for the same cell.

#ifndef LOCKSTEP_EXAMPLES_WEATHER_WIND_H_
#define LOCKSTEP_EXAMPLES_WEATHER_WIND_H_

#include <vector>

#include "examples/weather/grid.h"

namespace lockstep::weather {

inline constexpr double kStepSeconds = 600;

// For all cells of a tile with its halo, as planes are stored. In squared
// radians; an area is about 0.0019 at the equator.
struct EdgeFlows {
  std::vector<float> east;   // eastward, through a cell's eastern edge
  std::vector<float> south;  // southward, through its southern edge
  // One for each row. Diffusion moves this times the difference of two cells.
  std::vector<float> east_diffusion;
  std::vector<float> south_diffusion;
  std::vector<float> per_area;  // 1 / area of a cell; 0 beyond a pole
};

EdgeFlows FlowsOf(const Tile& tile);

// The area of a cell of this row of the globe, in squared radians.
double AreaOf(int row);

}  // namespace lockstep::weather

#endif  // LOCKSTEP_EXAMPLES_WEATHER_WIND_H_

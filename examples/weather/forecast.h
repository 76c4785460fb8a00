// The fields at the first step: a forecast of the Global Forecast System
// (data/SOURCE.md has its origin and format), embedded in the program.

#ifndef LOCKSTEP_EXAMPLES_WEATHER_FORECAST_H_
#define LOCKSTEP_EXAMPLES_WEATHER_FORECAST_H_

#include <string_view>
#include <vector>

#include "examples/weather/grid.h"

namespace lockstep::weather {

// Plane 0 is the precipitable water in kg/m2; the others are the temperature in
// K, from 1000 to 150 hPa.
inline constexpr int kLevels = 11;
inline constexpr int kPlanes = 1 + kLevels;

// All cells of the globe, plane by plane and row by row.
using Globe = std::vector<float>;
inline constexpr size_t kGlobeCells = size_t{kPlanes} * kRows * kColumns;

Globe Forecast();

// The bytes of data/gfs.i16 at the time of the build.
std::string_view EmbeddedForecast();

}  // namespace lockstep::weather

#endif  // LOCKSTEP_EXAMPLES_WEATHER_FORECAST_H_

// Draws the precipitable water as a PNG of four maps, three pixels a cell:
//
//   before           after, and how the globe is cut
//   the tiles with   after, without halos in place of exchanged ones,
//   their halos      minus after: red more, blue less water

#ifndef LOCKSTEP_EXAMPLES_WEATHER_PICTURE_H_
#define LOCKSTEP_EXAMPLES_WEATHER_PICTURE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/weather/forecast.h"
#include "examples/weather/grid.h"

namespace lockstep::weather {

struct WaterMaps {
  // kRows rows of kColumns cells each, or more: plane 0 of a Globe.
  Globe before;
  Globe after;
  Globe after_without_halos;
  // One for each rank, in their order: `lats` rows of `lons` tiles.
  int lats = 1;
  int lons = 1;
  std::vector<Tile> tiles;
  std::vector<std::vector<float>> padded;  // of each tile, as it is stored
};

// Replaces an existing file. Errors: of the file, or ResourceExhausted.
absl::Status WritePicture(const WaterMaps& maps, const std::string& path);

}  // namespace lockstep::weather

#endif  // LOCKSTEP_EXAMPLES_WEATHER_PICTURE_H_

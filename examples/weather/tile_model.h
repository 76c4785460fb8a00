// The fields of a tile, and their step: advection by the wind and diffusion.
//
//   before      halo of the fields, from other tiles or FillHalo
//   interior    cells that are kHalo cells or more inside the tile: they need
//               no halo and can be computed while it is exchanged
//   rim         the others
//
// A step is the two-stage Runge-Kutta method of Heun, of fluxes through the
// edges of cells: upwind, with linear reconstruction limited as MC (van Leer,
// Towards the ultimate conservative difference scheme III, 1977). Each cell is
// computed by the same operations wherever it is in a tile, so its bits do not
// depend on how the globe is cut. That needs -ffp-contract=off: where the
// compiler may fuse a multiplication with an addition, it may do so in one copy
// of a loop and not in another.

#ifndef LOCKSTEP_EXAMPLES_WEATHER_TILE_MODEL_H_
#define LOCKSTEP_EXAMPLES_WEATHER_TILE_MODEL_H_

#include <cstddef>
#include <vector>

#include "examples/weather/forecast.h"
#include "examples/weather/grid.h"
#include "examples/weather/wind.h"

namespace lockstep::weather {

// What is beyond an edge of a tile that has no neighbour.
enum class TileEdge { kNearest, kOpposite };

class TileModel {
 public:
  static size_t FloatsOf(const Tile& tile) {
    return kPlanes * tile.PaddedCells();
  }

  // The fields at the first step. `now` and `next`: memory of FloatsOf(tile)
  // floats each, which outlives the model.
  TileModel(const Tile& tile, const Globe& globe, float* now, float* next);

  // The fields with their halos, of which those are to be filled before a step:
  // the water, shape {rows + 2 kHalo, columns + 2 kHalo}, and the temperature
  // {kLevels, rows + 2 kHalo, columns + 2 kHalo}. A step moves them.
  float* water() const { return now_; }
  float* temperature() const { return now_ + tile_.PaddedCells(); }

  void FillHalo(TileEdge along_columns, TileEdge along_rows);

  // One step: the interior first, which does not read the halo, then the rim.
  void AdvanceInterior();
  void AdvanceRim();

  // Without halos, plane by plane and row by row.
  std::vector<float> Values() const;

 private:
  struct Box;  // of cells of the tile
  void Advance(const Box& box);
  void AddFlows(const float* from, const Box& box, float speed, float* to);

  Tile tile_;
  EdgeFlows flows_;
  float* now_;
  float* next_;
  std::vector<float> stage_;                 // a plane behind the first stage
  std::vector<float> east_, north_, south_;  // flows of a row of cells
};

}  // namespace lockstep::weather

#endif  // LOCKSTEP_EXAMPLES_WEATHER_TILE_MODEL_H_

// The globe as a grid, and its tiles: the parts that the workers have.
//
//   73 rows, from the north pole to the south pole, 2.5 degrees each
//   144 columns, from 0 degrees east, 2.5 degrees each; the last one's eastern
//   neighbour is the first
//
//   mesh lat=2,lon=2:    rank 0 │ rank 1     rows 0-35
//                        ───────┼───────
//                        rank 2 │ rank 3     rows 36-72
//
// A tile is stored with a halo of kHalo cells on each side, row by row.

#ifndef LOCKSTEP_EXAMPLES_WEATHER_GRID_H_
#define LOCKSTEP_EXAMPLES_WEATHER_GRID_H_

#include <cstddef>

namespace lockstep::weather {

inline constexpr int kRows = 73;
inline constexpr int kColumns = 144;
inline constexpr double kDegrees = 2.5;  // of a row and of a column

// Cells that a step reads on each side of a cell: it has two stages, and each
// reads two.
inline constexpr int kHalo = 4;

// Rows [row, row + rows) and columns [column, column + columns) of the globe.
struct Tile {
  int row = 0;
  int rows = kRows;
  int column = 0;
  int columns = kColumns;

  // Cells of a row of a plane as it is stored, with its halo; and of the plane.
  int Stride() const { return columns + 2 * kHalo; }
  size_t PaddedCells() const {
    return static_cast<size_t>(rows + 2 * kHalo) * Stride();
  }
  // Where the plane has the tile's first cell.
  size_t Origin() const {
    return static_cast<size_t>(kHalo) * Stride() + kHalo;
  }
};

// Part `i` of `parts` along each dimension. The parts' sizes differ by at most
// one.
inline Tile TileAt(int lat, int lats, int lon, int lons) {
  const int row = kRows * lat / lats;
  const int column = kColumns * lon / lons;
  return {.row = row,
          .rows = kRows * (lat + 1) / lats - row,
          .column = column,
          .columns = kColumns * (lon + 1) / lons - column};
}

}  // namespace lockstep::weather

#endif  // LOCKSTEP_EXAMPLES_WEATHER_GRID_H_

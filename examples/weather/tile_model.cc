#include "examples/weather/tile_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::weather {
namespace {

constexpr int kStageHalo = kHalo / 2;

// The wind by plane, in parts of the wave's: stronger with the height.
float SpeedOf(int plane) {
  return plane == 0 ? 1.0f : 0.5f + 0.1f * static_cast<float>(plane);
}

// Half the limited difference across a cell, from those to its neighbours.
inline float HalfSlope(float before, float after) {
  const float mean = 0.25f * (before + after);
  const float least = std::min(std::abs(before), std::abs(after));
  const float slope = std::copysign(std::min(least, std::abs(mean)), mean);
  return before * after > 0 ? slope : 0;
}

// The flow of a field through the edge between b and c, of the cells a b | c d.
inline float FlowOf(float air, float diffusion, float a, float b, float c,
                    float d) {
  const float step = c - b;
  const float upwind =
      air >= 0 ? b + HalfSlope(b - a, step) : c - HalfSlope(step, d - c);
  return air * upwind - diffusion * step;
}

}  // namespace

struct TileModel::Box {
  int top, bottom, left, right;  // the last are not part of it

  Box Grown(int cells) const {
    return {top - cells, bottom + cells, left - cells, right + cells};
  }
};

TileModel::TileModel(const Tile& tile, const Globe& globe, float* now,
                     float* next)
    : tile_(tile),
      flows_(FlowsOf(tile)),
      now_(now),
      next_(next),
      stage_(tile.PaddedCells()),
      east_(tile.Stride()),
      north_(tile.Stride()),
      south_(tile.Stride()) {
  for (int plane = 0; plane < kPlanes; ++plane) {
    float* cells = now_ + plane * tile.PaddedCells() + tile.Origin();
    for (int r = 0; r < tile.rows; ++r) {
      const float* row =
          &globe[(plane * kRows + tile.row + r) * kColumns + tile.column];
      std::copy(row, row + tile.columns, cells + r * tile.Stride());
    }
  }
}

void TileModel::FillHalo(TileEdge along_columns, TileEdge along_rows) {
  const auto source = [](int i, int size, TileEdge edge) {
    return edge == TileEdge::kNearest ? std::clamp(i, 0, size - 1)
                                      : ((i % size) + size) % size;
  };
  for (int plane = 0; plane < kPlanes; ++plane) {
    float* cells = now_ + plane * tile_.PaddedCells() + tile_.Origin();
    for (int r = -kHalo; r < tile_.rows + kHalo; ++r) {
      const int from_row = source(r, tile_.rows, along_columns);
      for (int c = -kHalo; c < tile_.columns + kHalo; ++c) {
        const int from_column = source(c, tile_.columns, along_rows);
        cells[r * tile_.Stride() + c] =
            cells[from_row * tile_.Stride() + from_column];
      }
    }
  }
}

void TileModel::AdvanceInterior() {
  Advance({kHalo, tile_.rows - kHalo, kHalo, tile_.columns - kHalo});
}

void TileModel::AdvanceRim() {
  // In a tile that is narrower than two halos nothing is interior.
  const int top = std::min(kHalo, tile_.rows);
  const int bottom = std::max(tile_.rows - kHalo, top);
  const int left = std::min(kHalo, tile_.columns);
  const int right = std::max(tile_.columns - kHalo, left);
  Advance({0, top, 0, tile_.columns});
  Advance({top, bottom, 0, left});
  Advance({top, bottom, right, tile_.columns});
  Advance({bottom, tile_.rows, 0, tile_.columns});
  std::swap(now_, next_);
}

void TileModel::Advance(const Box& box) {
  if (box.top >= box.bottom || box.left >= box.right) return;
  for (int plane = 0; plane < kPlanes; ++plane) {
    const size_t origin = plane * tile_.PaddedCells() + tile_.Origin();
    const float* now = now_ + origin;
    float* stage = stage_.data() + tile_.Origin();
    float* next = next_ + origin;
    AddFlows(now, box.Grown(kStageHalo), SpeedOf(plane), stage);
    AddFlows(stage, box, SpeedOf(plane), next);
    for (int r = box.top; r < box.bottom; ++r) {
      for (int i = r * tile_.Stride() + box.left;
           i < r * tile_.Stride() + box.right; ++i) {
        next[i] = 0.5f * (now[i] + next[i]);
      }
    }
  }
}

// to = from + what flows into each cell of the box in a step. Reads two cells
// around the box.
void TileModel::AddFlows(const float* from, const Box& box, float speed,
                         float* to) {
  const int stride = tile_.Stride();
  const int width = box.right - box.left;
  const auto flow_south = [&](int r, float* flows) {
    const float* a = from + (r - 1) * stride + box.left;
    const float* air = &flows_.south[(r + kHalo) * stride + kHalo + box.left];
    const float diffusion = flows_.south_diffusion[r + kHalo];
    for (int i = 0; i < width; ++i) {
      flows[i] = FlowOf(speed * air[i], diffusion, a[i], a[i + stride],
                        a[i + 2 * stride], a[i + 3 * stride]);
    }
  };
  flow_south(box.top - 1, north_.data());
  for (int r = box.top; r < box.bottom; ++r) {
    flow_south(r, south_.data());
    // Through the western edge of each cell, and the eastern of the last.
    const float* cells = from + r * stride + box.left;
    const float* air =
        &flows_.east[(r + kHalo) * stride + kHalo + box.left - 1];
    const float diffusion = flows_.east_diffusion[r + kHalo];
    for (int i = 0; i <= width; ++i) {
      east_[i] = FlowOf(speed * air[i], diffusion, cells[i - 2], cells[i - 1],
                        cells[i], cells[i + 1]);
    }
    const float per_area = flows_.per_area[r + kHalo];
    float* row = to + r * stride + box.left;
    for (int i = 0; i < width; ++i) {
      row[i] = cells[i] +
               per_area * ((east_[i] - east_[i + 1]) + (north_[i] - south_[i]));
    }
    std::swap(north_, south_);
  }
}

std::vector<float> TileModel::Values() const {
  std::vector<float> values;
  for (int plane = 0; plane < kPlanes; ++plane) {
    const float* cells = now_ + plane * tile_.PaddedCells() + tile_.Origin();
    for (int r = 0; r < tile_.rows; ++r) {
      const float* row = cells + r * tile_.Stride();
      values.insert(values.end(), row, row + tile_.columns);
    }
  }
  return values;
}

}  // namespace lockstep::weather

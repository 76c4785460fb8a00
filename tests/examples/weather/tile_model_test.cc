#include "examples/weather/tile_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::weather {
namespace {

constexpr int kPlaneCells = kRows * kColumns;

struct OwnedTileModel {
  OwnedTileModel(const Tile& tile, const Globe& globe)
      : now(TileModel::FloatsOf(tile)),
        next(now.size()),
        model(tile, globe, now.data(), next.data()) {}

  std::vector<float> now, next;
  TileModel model;
};

Globe AfterAlone(const Globe& globe, int steps) {
  OwnedTileModel alone(Tile{}, globe);
  for (int step = 0; step < steps; ++step) {
    alone.model.FillHalo(TileEdge::kNearest, TileEdge::kOpposite);
    alone.model.AdvanceInterior();
    alone.model.AdvanceRim();
  }
  return alone.model.Values();
}

// Sets halos by the definition: the nearest row, and the columns round the
// globe. The tile's own cells keep their values.
void FillHaloFrom(const Globe& globe, const Tile& tile, TileModel& model) {
  for (int plane = 0; plane < kPlanes; ++plane) {
    float* cells = plane == 0
                       ? model.water()
                       : model.temperature() + (plane - 1) * tile.PaddedCells();
    for (int r = -kHalo; r < tile.rows + kHalo; ++r) {
      for (int c = -kHalo; c < tile.columns + kHalo; ++c) {
        if (r >= 0 && r < tile.rows && c >= 0 && c < tile.columns) continue;
        const int row = std::clamp(tile.row + r, 0, kRows - 1);
        const int column = (tile.column + c + kColumns) % kColumns;
        cells[(r + kHalo) * tile.Stride() + c + kHalo] =
            globe[(plane * kRows + row) * kColumns + column];
      }
    }
  }
}

void CopyTo(Globe& globe, const Tile& tile, const std::vector<float>& values) {
  const float* row = values.data();
  for (int plane = 0; plane < kPlanes; ++plane) {
    for (int r = tile.row; r < tile.row + tile.rows; ++r) {
      std::copy(row, row + tile.columns,
                &globe[(plane * kRows + r) * kColumns + tile.column]);
      row += tile.columns;
    }
  }
}

TEST(ForecastTest, HasTheExtremesOfItsFile) {
  const Globe globe = Forecast();
  const auto [driest, wettest] =
      std::minmax_element(globe.begin(), globe.begin() + kPlaneCells);
  EXPECT_FLOAT_EQ(*driest, 0.1f);
  EXPECT_FLOAT_EQ(*wettest, 70.5f);
  const auto [coldest, warmest] = std::minmax_element(
      globe.begin() + kPlaneCells, globe.begin() + 2 * kPlaneCells);
  EXPECT_FLOAT_EQ(*coldest, 239.0f);
  EXPECT_FLOAT_EQ(*warmest, 310.5f);
}

TEST(WindTest, AsMuchAirFlowsIntoEachCellAsOut) {
  const Tile globe;
  const EdgeFlows flows = FlowsOf(globe);
  float largest = 0;
  for (int r = 0; r < globe.rows; ++r) {
    for (int c = 0; c < globe.columns; ++c) {
      const size_t i = globe.Origin() + r * globe.Stride() + c;
      largest = std::max(largest, flows.east[i]);
      EXPECT_NEAR(flows.east[i] - flows.east[i - 1] + flows.south[i] -
                      flows.south[i - globe.Stride()],
                  0, 1e-10);
    }
  }
  EXPECT_GT(largest, 1e-4);
}

TEST(TileModelTest, TilesHaveTheBitsOfTheGlobe) {
  constexpr int kSteps = 3;
  const Globe wanted = AfterAlone(Forecast(), kSteps);
  // The tiles of the last two are narrower than a halo, or than two.
  for (const auto& [lats, lons] :
       {std::pair{2, 2}, {3, 5}, {1, 7}, {24, 1}, {11, 40}}) {
    Globe globe = Forecast();
    std::vector<Tile> tiles;
    std::vector<std::unique_ptr<OwnedTileModel>> models;
    for (int i = 0; i < lats * lons; ++i) {
      tiles.push_back(TileAt(i / lons, lats, i % lons, lons));
      models.push_back(std::make_unique<OwnedTileModel>(tiles.back(), globe));
    }
    for (int step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < tiles.size(); ++i) {
        TileModel& model = models[i]->model;
        model.AdvanceInterior();
        FillHaloFrom(globe, tiles[i], model);
        model.AdvanceRim();
      }
      for (size_t i = 0; i < tiles.size(); ++i) {
        CopyTo(globe, tiles[i], models[i]->model.Values());
      }
    }
    EXPECT_TRUE(globe == wanted) << lats << " x " << lons;
  }
}

TEST(TileModelTest, AUniformFieldStaysUniform) {
  for (const float value : AfterAlone(Globe(kGlobeCells, 8), 10)) {
    ASSERT_NEAR(value, 8, 1e-4);
  }
}

TEST(TileModelTest, WaterMovesAndIsNeitherMadeNorLost) {
  const auto total = [](const Globe& globe) {
    double sum = 0;
    for (int i = 0; i < kPlaneCells; ++i) {
      sum += AreaOf(i / kColumns) * globe[i];
    }
    return sum;
  };
  const Globe before = Forecast();
  const Globe after = AfterAlone(before, 20);
  EXPECT_NEAR(total(after) / total(before), 1, 1e-6);
  const auto [driest, wettest] =
      std::minmax_element(after.begin(), after.begin() + kPlaneCells);
  EXPECT_GE(*driest, 0.0999f);
  EXPECT_LE(*wettest, 70.501f);
  float moved = 0;
  for (int i = 0; i < kPlaneCells; ++i) {
    moved = std::max(moved, std::abs(after[i] - before[i]));
  }
  EXPECT_GT(moved, 10);
}

}  // namespace
}  // namespace lockstep::weather

#include "examples/weather/picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/user_file.h"

namespace lockstep::weather {
namespace {

constexpr int kPixels = 3;  // of a cell, in both directions
constexpr int kGap = 12;    // between maps
constexpr int kTileGap = 6;
constexpr int kOutline = 2;  // of a tile, around it
constexpr int kCut = 1;      // on both sides of an edge between tiles

// The palette: two colours of lines, then two scales of kShades colours.
constexpr uint8_t kWhite = 0;
constexpr uint8_t kGrey = 1;
constexpr int kShades = 127;
constexpr uint8_t kWaterScale = 2;
constexpr uint8_t kDifferenceScale = kWaterScale + kShades;
constexpr int kColors = kDifferenceScale + kShades;

using Color = std::array<uint8_t, 3>;

// Five colours of matplotlib's viridis, from dry to wet.
constexpr Color kWaterColors[] = {
    {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
constexpr Color kDifferenceColors[] = {
    {5, 48, 97}, {67, 147, 195}, {247, 247, 247}, {214, 96, 77}, {103, 0, 31}};

// Appends kShades colours, interpolated.
void AppendScale(std::span<const Color> colors, std::vector<uint8_t>& palette) {
  for (int shade = 0; shade < kShades; ++shade) {
    const double at = static_cast<double>(shade) *
                      static_cast<double>(colors.size() - 1) / (kShades - 1);
    const size_t i = std::min(static_cast<size_t>(at), colors.size() - 2);
    const double part = at - static_cast<double>(i);
    for (int channel = 0; channel < 3; ++channel) {
      palette.push_back(static_cast<uint8_t>(std::lround(
          (1 - part) * colors[i][channel] + part * colors[i + 1][channel])));
    }
  }
}

std::vector<uint8_t> Palette() {
  std::vector<uint8_t> palette = {255, 255, 255, 128, 128, 128};
  AppendScale(kWaterColors, palette);
  AppendScale(kDifferenceColors, palette);
  return palette;
}

// `part` in 0..1; beyond it the scale's ends.
uint8_t Shade(uint8_t scale, float part) {
  const float clamped = std::clamp(part, 0.0f, 1.0f);
  return static_cast<uint8_t>(scale + std::lround(clamped * (kShades - 1)));
}

struct Canvas {
  Canvas(int width, int height)
      : width(width), height(height), pixels(size_t{1} * width * height) {}

  void Fill(int x, int y, int w, int h, uint8_t color) {
    for (int row = y; row < y + h; ++row) {
      std::fill_n(&pixels[static_cast<size_t>(row) * width + x], w, color);
    }
  }

  // color(i) for cell i of a plane, row by row.
  template <typename ColorOf>
  void Draw(int x, int y, int rows, int columns, const ColorOf& color) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        Fill(x + c * kPixels, y + r * kPixels, kPixels, kPixels,
             color(r * columns + c));
      }
    }
  }

  // The inner edge of a rectangle.
  void Outline(int x, int y, int w, int h, int line, uint8_t color) {
    Fill(x, y, w, line, color);
    Fill(x, y + h - line, w, line, color);
    Fill(x, y, line, h, color);
    Fill(x + w - line, y, line, h, color);
  }

  int width, height;
  std::vector<uint8_t> pixels;
};

class Drawing {
 public:
  explicit Drawing(const WaterMaps& maps)
      : maps_(maps),
        wettest_(*std::max_element(maps.before.begin(),
                                   maps.before.begin() + kRows * kColumns)),
        map_height_(kRows * kPixels),
        tiles_width_(SizeOfTiles(kColumns, maps.lons)),
        tiles_height_(SizeOfTiles(kRows, maps.lats)),
        canvas_(3 * kGap + 2 * tiles_width_,
                3 * kGap + map_height_ + tiles_height_) {
    const int right = 2 * kGap + tiles_width_;
    const int below = 2 * kGap + map_height_;
    const int inset = (tiles_width_ - kColumns * kPixels) / 2;
    DrawWater(kGap + inset, kGap, maps.before);
    DrawWater(right + inset, kGap, maps.after);
    DrawCuts(right + inset, kGap, kWhite);
    DrawTiles(kGap, below);
    const int drop = (tiles_height_ - map_height_) / 2;
    DrawDifference(right + inset, below + drop);
    DrawCuts(right + inset, below + drop, kGrey);
  }

  const Canvas& canvas() const { return canvas_; }

 private:
  static int SizeOfTiles(int cells, int parts) {
    return (cells + 2 * kHalo * parts) * kPixels + (parts - 1) * kTileGap;
  }

  uint8_t ColorOfWater(float water) const {
    return Shade(kWaterScale, water / wettest_);
  }

  void DrawWater(int x, int y, const Globe& water) {
    canvas_.Draw(x, y, kRows, kColumns,
                 [&](int i) { return ColorOfWater(water[i]); });
  }

  void DrawCuts(int x, int y, uint8_t color) {
    for (const Tile& tile : maps_.tiles) {
      canvas_.Outline(x + tile.column * kPixels, y + tile.row * kPixels,
                      tile.columns * kPixels, tile.rows * kPixels, kCut, color);
    }
  }

  void DrawTiles(int left, int top) {
    for (size_t i = 0; i < maps_.tiles.size(); ++i) {
      const Tile& tile = maps_.tiles[i];
      const int lon = static_cast<int>(i) % maps_.lons;
      const int lat = static_cast<int>(i) / maps_.lons;
      const int x =
          left + (tile.column + 2 * kHalo * lon) * kPixels + lon * kTileGap;
      const int y =
          top + (tile.row + 2 * kHalo * lat) * kPixels + lat * kTileGap;
      const std::vector<float>& water = maps_.padded[i];
      canvas_.Draw(x, y, tile.rows + 2 * kHalo, tile.Stride(),
                   [&](int cell) { return ColorOfWater(water[cell]); });
      canvas_.Outline(x + kHalo * kPixels - kOutline,
                      y + kHalo * kPixels - kOutline,
                      tile.columns * kPixels + 2 * kOutline,
                      tile.rows * kPixels + 2 * kOutline, kOutline, kWhite);
    }
  }

  void DrawDifference(int x, int y) {
    const auto difference = [this](int i) {
      return maps_.after_without_halos[i] - maps_.after[i];
    };
    float largest = 0;
    for (int i = 0; i < kRows * kColumns; ++i) {
      largest = std::max(largest, std::abs(difference(i)));
    }
    canvas_.Draw(x, y, kRows, kColumns, [&](int i) {
      const float part = largest > 0 ? difference(i) / largest : 0;
      return Shade(kDifferenceScale, 0.5f + 0.5f * part);
    });
  }

  const WaterMaps& maps_;
  const float wettest_;
  const int map_height_, tiles_width_, tiles_height_;
  Canvas canvas_;
};

}  // namespace

absl::Status WritePicture(const WaterMaps& maps, const std::string& path) {
  const Drawing drawing(maps);
  const Canvas& canvas = drawing.canvas();
  const std::vector<uint8_t> palette = Palette();
  png_image image{.version = PNG_IMAGE_VERSION,
                  .width = static_cast<png_uint_32>(canvas.width),
                  .height = static_cast<png_uint_32>(canvas.height),
                  .format = PNG_FORMAT_RGB_COLORMAP,
                  .colormap_entries = kColors};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                 canvas.pixels.data(), 0, palette.data())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": libpng cannot make the picture: ", image.message));
  }
  bytes.resize(size);
  return WriteUserFile(path, bytes);
}

}  // namespace lockstep::weather

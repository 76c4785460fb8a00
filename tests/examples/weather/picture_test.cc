#include "examples/weather/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_path.h"

namespace lockstep::weather {
namespace {

struct ReadPng {
  int width, height;
  std::vector<std::array<uint8_t, 3>> pixels;
};

ReadPng ReadPicture(const std::string& path) {
  png_image image{.version = PNG_IMAGE_VERSION};
  EXPECT_TRUE(png_image_begin_read_from_file(&image, path.c_str()));
  image.format = PNG_FORMAT_RGB;
  std::vector<std::array<uint8_t, 3>> pixels(size_t{image.width} *
                                             image.height);
  EXPECT_TRUE(
      png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr));
  return {static_cast<int>(image.width), static_cast<int>(image.height),
          std::move(pixels)};
}

// One tile; the fields before and after differ in cell (row 36, column 72).
WaterMaps MapsOfOneTile() {
  const Tile tile;
  WaterMaps maps{.before = Forecast(),
                 .after = Forecast(),
                 .after_without_halos = Forecast(),
                 .tiles = {tile},
                 .padded = {std::vector<float>(tile.PaddedCells())}};
  maps.after_without_halos[36 * kColumns + 72] += 5;
  return maps;
}

TEST(PictureTest, HasFourMapsAndMarksTheCellThatDiffers) {
  const std::string path = TempPath("weather_picture.png");
  ASSERT_TRUE(WritePicture(MapsOfOneTile(), path).ok());
  const ReadPng png = ReadPicture(path);
  const int tile_width = 3 * (kColumns + 2 * kHalo);
  const int tile_height = 3 * (kRows + 2 * kHalo);
  EXPECT_EQ(png.width, 3 * 12 + 2 * tile_width);
  EXPECT_EQ(png.height, 3 * 12 + 3 * kRows + tile_height);
  // The centre of the map of differences is that cell; its neighbours are not.
  const auto pixel = [&](int x, int y) {
    return png.pixels[y * png.width + x];
  };
  const int x = 24 + tile_width + tile_width / 2 + 1;
  const int y = 24 + 3 * kRows + tile_height / 2 + 1;
  const std::array<uint8_t, 3> most = {103, 0, 31}, none = {247, 247, 247};
  EXPECT_EQ(pixel(x, y), most);
  for (const int step : {-3, 3}) {
    EXPECT_EQ(pixel(x + step, y), none);
    EXPECT_EQ(pixel(x, y + step), none);
  }
}

TEST(PictureTest, NamesAFileThatCannotBeWritten) {
  const absl::Status status =
      WritePicture(MapsOfOneTile(), "/no-such-folder/weather.png");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("/no-such-folder/weather.png"));
}

}  // namespace
}  // namespace lockstep::weather

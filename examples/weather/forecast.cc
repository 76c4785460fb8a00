#include "examples/weather/forecast.h"

#include <cstdint>

#include "base/check.h"

namespace lockstep::weather {

Globe Forecast() {
  const std::string_view bytes = EmbeddedForecast();
  Check(bytes.size() == kGlobeCells * sizeof(int16_t),
        "data/gfs.i16 has another size than 12 planes");
  Globe globe(kGlobeCells);
  for (size_t i = 0; i < kGlobeCells; ++i) {
    const auto low = static_cast<uint8_t>(bytes[2 * i]);
    const auto high = static_cast<uint8_t>(bytes[2 * i + 1]);
    globe[i] = static_cast<float>(static_cast<int16_t>(high << 8 | low)) / 10;
  }
  return globe;
}

}  // namespace lockstep::weather

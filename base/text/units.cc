#include "base/text/units.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

struct ByteUnit {
  absl::string_view name;
  int64_t bytes;
};

constexpr ByteUnit kUnits[] = {{"TiB", int64_t{1} << 40},
                               {"GiB", int64_t{1} << 30},
                               {"MiB", int64_t{1} << 20},
                               {"KiB", int64_t{1} << 10},
                               {"B", 1},
                               {"", 1}};

const ByteUnit* FindUnit(absl::string_view name) {
  const auto found =
      std::find_if(std::begin(kUnits), std::end(kUnits),
                   [&](const ByteUnit& unit) { return unit.name == name; });
  return found == std::end(kUnits) ? nullptr : found;
}

}  // namespace

std::string RoundedSizeText(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return unit == 0 ? absl::StrCat(bytes, " B")
                   : absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string SizeText(int64_t bytes) {
  for (const ByteUnit& unit : kUnits) {
    if (unit.bytes > 1 && bytes != 0 && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes);
}

std::optional<int64_t> ParseSize(absl::string_view text) {
  const size_t digits = static_cast<size_t>(
      std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit) -
      text.begin());
  const ByteUnit* unit = FindUnit(text.substr(digits));
  int64_t count = 0;
  if (unit == nullptr || !absl::SimpleAtoi(text.substr(0, digits), &count) ||
      count > std::numeric_limits<int64_t>::max() / unit->bytes) {
    return std::nullopt;
  }
  return count * unit->bytes;
}

std::string DurationText(absl::Duration duration) {
  return absl::FormatDuration(duration);
}

std::optional<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return duration;
}

}  // namespace lockstep

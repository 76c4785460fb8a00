// Sizes and durations as people write them: "25MiB", "500ms".

#ifndef LOCKSTEP_BASE_TEXT_UNITS_H_
#define LOCKSTEP_BASE_TEXT_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep {

// The bytes in the largest of KiB, MiB, GiB, TiB that divides them, else
// without a unit: "25MiB", "4097". ParseSize is the inverse; it also takes a
// number without a unit, or with "B". nullopt for anything else, for fractions
// and negative numbers, and above 63 bits.
std::string SizeText(int64_t bytes);
std::optional<int64_t> ParseSize(absl::string_view text);

// For people: "1.2 GiB", "17 B".
std::string RoundedSizeText(uint64_t bytes);

// "5m", "1m30s", "500ms". ParseDuration is the inverse. A unit (ns, us, ms, s,
// m, h) is required, except for 0. nullopt for anything else, and for infinite
// or negative durations.
std::string DurationText(absl::Duration duration);
std::optional<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_UNITS_H_

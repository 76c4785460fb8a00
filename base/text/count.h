// A number with its noun, for messages to people.

#ifndef LOCKSTEP_BASE_TEXT_COUNT_H_
#define LOCKSTEP_BASE_TEXT_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// "1 rank", "4 ranks".
inline std::string Count(int64_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_COUNT_H_

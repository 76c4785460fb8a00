// The same characters as abseil's own view, which before its C++17 builds is
// not std::string_view: absl::StrCat and the like take only this one.

#ifndef LOCKSTEP_BASE_ABSL_VIEW_H_
#define LOCKSTEP_BASE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace lockstep {

inline absl::string_view AbslView(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_ABSL_VIEW_H_

// Converts to absl::string_view, which is not std::string_view in abseil builds
// before C++17. absl::StrCat and similar functions take only the former.

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

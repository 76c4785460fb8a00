// Which known word did somebody mean?

#ifndef LOCKSTEP_BASE_TEXT_NEAREST_H_
#define LOCKSTEP_BASE_TEXT_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep {

// How many letters must be inserted, removed or replaced to make b of a.
int EditDistance(absl::string_view a, absl::string_view b);

// The known word that is nearest to `word`, the first of several; empty if none
// is near: if more than a third of its letters would have to change.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_NEAREST_H_

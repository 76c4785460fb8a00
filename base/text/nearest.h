// Suggests the known word that the user probably meant.

#ifndef LOCKSTEP_BASE_TEXT_NEAREST_H_
#define LOCKSTEP_BASE_TEXT_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep {

// The number of letters to insert, remove or replace to turn a into b.
int EditDistance(absl::string_view a, absl::string_view b);

// The known word that is nearest to `word`, the first of several; empty if more
// than a third of its letters would have to change.
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_NEAREST_H_

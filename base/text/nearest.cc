#include "base/text/nearest.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

int EditDistance(absl::string_view a, absl::string_view b) {
  // row[j]: distance from the letters of `a` so far to the first j letters of
  // `b`.
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known) {
  std::string nearest;
  int least = 0;
  for (const std::string& candidate : known) {
    const int distance = EditDistance(word, candidate);
    const int allowed = (static_cast<int>(candidate.size()) + 2) / 3;
    if (distance <= allowed && (nearest.empty() || distance < least)) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

}  // namespace lockstep

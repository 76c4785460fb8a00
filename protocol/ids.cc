#include "protocol/ids.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace lockstep {
namespace {

// Takes the digits at the start of `text`, without their leading zeros.
absl::string_view TakeNumber(absl::string_view* text) {
  const size_t length = static_cast<size_t>(
      std::find_if_not(text->begin(), text->end(), absl::ascii_isdigit) -
      text->begin());
  absl::string_view digits = text->substr(0, length);
  text->remove_prefix(length);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

int CompareNumbers(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

// Negative, zero or positive; zero also for names like "w1" and "w01".
int CompareNaturally(absl::string_view a, absl::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a[0]) && absl::ascii_isdigit(b[0])) {
      const int order = CompareNumbers(TakeNumber(&a), TakeNumber(&b));
      if (order != 0) return order;
    } else {
      if (a[0] != b[0]) return a.substr(0, 1).compare(b.substr(0, 1));
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

}  // namespace

bool NaturalLess(const std::string& a, const std::string& b) {
  const int order = CompareNaturally(a, b);
  return order != 0 ? order < 0 : a < b;
}

}  // namespace lockstep

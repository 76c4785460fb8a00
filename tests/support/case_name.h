// Names of a parameterised test's cases.

#ifndef LOCKSTEP_TESTS_SUPPORT_CASE_NAME_H_
#define LOCKSTEP_TESTS_SUPPORT_CASE_NAME_H_

#include <cctype>
#include <string>

namespace lockstep {

// "warms no pairs" as "WarmsNoPairs".
inline std::string CaseName(const std::string& words) {
  std::string name;
  bool begins = true;
  for (const char c : words) {
    const bool is_part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_part) {
      name += begins ? static_cast<char>(std::toupper(c)) : c;
    }
    begins = !is_part && c != '\'';
  }
  return name;
}

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_CASE_NAME_H_

#include "protocol/axis_group.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lockstep::protocol {

std::string Describe(const AxisGroupDeclaration& group) {
  constexpr size_t kTextMax = 60;
  std::string text =
      group.axes.empty() ? "no axes" : absl::StrJoin(group.axes, "+");
  if (group.index_groups.empty()) return text;
  const std::string indices =
      absl::StrJoin(group.index_groups, "|",
                    [](std::string* out, const std::vector<int>& indices) {
                      absl::StrAppend(out, absl::StrJoin(indices, ","));
                    });
  if (indices.size() <= kTextMax) return absl::StrCat(text, "[", indices, "]");
  return absl::StrFormat(
      "%s[%s... of %d groups, %016x]", text, indices.substr(0, kTextMax / 2),
      group.index_groups.size(), XXH3_64bits(indices.data(), indices.size()));
}

}  // namespace lockstep::protocol

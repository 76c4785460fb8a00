#include "server/core/connections.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::core {

std::string Connections::Describe(const plan::Plan& plan) const {
  constexpr size_t kNamed = 4;
  std::string text;
  for (const auto& [transport, communicators] : by_transport_) {
    std::vector<std::string> names;
    size_t known = 0;
    for (const int communicator : communicators) {
      if (communicator >= static_cast<int>(plan.communicators.size())) continue;
      if (++known > kNamed) continue;
      names.push_back(plan.communicators[communicator].name);
    }
    if (known == 0) continue;
    absl::StrAppend(&text, text.empty() ? ": " : "; ", transport, " connects ",
                    absl::StrJoin(names, ", "));
    if (known > kNamed)
      absl::StrAppend(&text, " and ", known - kNamed, " more");
  }
  return text;
}

}  // namespace lockstep::core

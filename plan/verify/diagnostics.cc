#include "plan/verify/diagnostics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/rank_list.h"

namespace lockstep::plan {

void Diagnostics::Add(Rule rule, std::vector<int> ranks, std::string text) {
  ++count_;
  if (kept_.size() < kKept) {
    kept_.push_back({rule, std::move(ranks), std::move(text)});
  }
}

absl::Status Diagnostics::ToStatus() const {
  if (empty()) return absl::OkStatus();
  std::string message = "the plan cannot run: ";
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Diagnostic& diagnostic = kept_[i];
    absl::StrAppend(&message, i == 0 ? "" : " | ");
    if (!diagnostic.ranks.empty()) {
      absl::StrAppend(&message, RankList(diagnostic.ranks), ": ");
    }
    absl::StrAppend(&message, diagnostic.text);
  }
  if (count_ > kept_.size()) {
    absl::StrAppend(&message, " | and ", count_ - kept_.size(), " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace lockstep::plan

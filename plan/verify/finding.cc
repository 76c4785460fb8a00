#include "plan/verify/finding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "plan/words/rank_list.h"

namespace lockstep::plan {

void Findings::Add(Rule rule, std::vector<int> ranks, std::string text) {
  ++count_;
  if (kept_.size() < kKept) {
    kept_.push_back({rule, std::move(ranks), std::move(text)});
  }
}

absl::Status Findings::ToStatus() const {
  if (empty()) return absl::OkStatus();
  std::string message = "the plan cannot run: ";
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Finding& finding = kept_[i];
    absl::StrAppend(&message, i == 0 ? "" : " | ");
    if (!finding.ranks.empty()) {
      absl::StrAppend(&message, RankList(finding.ranks), ": ");
    }
    absl::StrAppend(&message, finding.text);
  }
  if (count_ > kept_.size()) {
    absl::StrAppend(&message, " | and ", count_ - kept_.size(), " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace lockstep::plan

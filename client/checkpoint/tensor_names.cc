#include "client/checkpoint/tensor_names.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

// A text with one '*'.
struct Star {
  absl::string_view before, after;
};

std::optional<Star> StarOf(absl::string_view text) {
  const size_t at = text.find('*');
  if (at == absl::string_view::npos || text.rfind('*') != at) {
    return std::nullopt;
  }
  return Star{text.substr(0, at), text.substr(at + 1)};
}

// `name` with the text that `from` has '*' for in place of the '*' of `to`.
std::optional<std::string> Replaced(absl::string_view name, const Star& from,
                                    const Star& to) {
  const bool fits = name.size() >= from.before.size() + from.after.size() &&
                    absl::StartsWith(name, from.before) &&
                    absl::EndsWith(name, from.after);
  if (!fits) return std::nullopt;
  name.remove_prefix(from.before.size());
  name.remove_suffix(from.after.size());
  return absl::StrCat(to.before, name, to.after);
}

}  // namespace

bool FitsPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0, n = 0;
  size_t star = absl::string_view::npos, resume = 0;  // the last '*'
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

// --- Renaming ----------------------------------------------------------------

Renaming::Renaming(const std::map<std::string, std::string>& renamed)
    : renamed_(renamed) {
  for (const auto& [from, to] : renamed) {
    const bool is_name = from.find('*') == std::string::npos &&
                         to.find('*') == std::string::npos;
    if (is_name) {
      names_.emplace(from, to);
    } else if (StarOf(from) && StarOf(to)) {
      patterns_.push_back({from, to});
    } else {
      faults_.push_back(absl::StrCat("\"", from, "\" to \"", to,
                                     "\": both have one '*', or none"));
    }
  }
}

std::string Renaming::NameOf(const std::string& stored) {
  const auto found = renamed_.find(stored);
  if (found != renamed_.end() && names_.erase(stored) > 0) {
    return found->second;
  }
  const Pattern* fitting = nullptr;
  std::string name = stored;
  for (Pattern& pattern : patterns_) {
    const auto replaced =
        Replaced(stored, *StarOf(pattern.from), *StarOf(pattern.to));
    if (!replaced) continue;
    pattern.used = true;
    if (fitting != nullptr) {
      faults_.push_back(absl::StrCat(TensorText(stored), " fits \"",
                                     fitting->from, "\" and \"", pattern.from,
                                     "\""));
      break;
    }
    fitting = &pattern;
    name = *replaced;
  }
  return name;
}

std::vector<std::string> Renaming::Faults() const {
  std::vector<std::string> faults = faults_;
  for (const auto& [from, to] : names_) {
    faults.push_back(
        absl::StrCat(TensorText(from), " is not in the checkpoint"));
  }
  for (const Pattern& pattern : patterns_) {
    if (pattern.used) continue;
    faults.push_back(
        absl::StrCat("\"", pattern.from, "\" fits no name in the checkpoint"));
  }
  return faults;
}

// --- Selection ---------------------------------------------------------------

Selection::Selection(const std::vector<std::string>& only,
                     const std::vector<std::string>& except)
    : only_{only, std::vector<bool>(only.size())},
      except_{except, std::vector<bool>(except.size())} {}

bool Selection::Has(absl::string_view name) {
  const bool named = only_.Fit(name);
  const bool excepted = except_.Fit(name);
  return (named || only_.texts.empty()) && !excepted;
}

std::vector<std::string> Selection::Unused() const {
  std::vector<std::string> unused;
  only_.ListUnused("only", &unused);
  except_.ListUnused("except", &unused);
  return unused;
}

bool Selection::Texts::Fit(absl::string_view name) {
  bool fits = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!FitsPattern(texts[i], name)) continue;
    used[i] = true;
    fits = true;
  }
  return fits;
}

void Selection::Texts::ListUnused(const char* option,
                                  std::vector<std::string>* to) const {
  for (size_t i = 0; i < texts.size(); ++i) {
    if (used[i]) continue;
    to->push_back(
        absl::StrCat("\"", texts[i], "\" of `", option, "` fits no name"));
  }
}

}  // namespace lockstep::checkpoint

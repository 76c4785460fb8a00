#include "spec/value_format.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/count.h"
#include "base/text/units.h"
#include "base/text/utf8.h"

namespace lockstep::spec {
namespace {

constexpr size_t kNameBytesMax = 63;

// For a message: printable, and shortened.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 100;
  const bool whole = text.size() <= kShown;
  return absl::StrCat("\"",
                      Printable(absl::Utf8SafeCEscape(text.substr(0, kShown))),
                      whole ? "\"" : "...\"");
}

absl::Status NotA(absl::string_view text, absl::string_view form) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is not ", form));
}

std::string Outside(absl::string_view value, absl::string_view domain) {
  return absl::StrCat(value, " is outside of its domain: ", domain);
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string WordText(const Written& written) {
  return std::get<std::string>(written);
}

}  // namespace

absl::StatusOr<std::string> WordOf(const Written& written) {
  if (const auto* word = std::get_if<std::string>(&written)) return *word;
  return absl::InvalidArgumentError(absl::StrCat(
      "is a ", std::holds_alternative<WrittenList>(written) ? "list" : "map",
      ", but takes a single value"));
}

// --- Numbers ----------------------------------------------------------------

template <typename T>
std::string NumberForm<T>::Domain() const {
  return absl::StrCat(min, " to ", max);
}

template <typename T>
Written NumberForm<T>::Print(T value) const {
  return absl::StrCat(value);
}

template <typename T>
absl::StatusOr<T> NumberForm<T>::Read(const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  T value{};
  if (!absl::SimpleAtoi(*word, &value)) {
    return NotA(*word, absl::StrCat("a whole number, ", Domain()));
  }
  return value;
}

template <typename T>
std::string NumberForm<T>::Fault(T value, const JobSpec&) const {
  return value < min || value > max ? Outside(absl::StrCat(value), Domain())
                                    : "";
}

template struct NumberForm<int>;
template struct NumberForm<int64_t>;
template struct NumberForm<uint64_t>;

std::string SizeForm::Domain() const {
  return absl::StrCat(SizeText(min), " to ", SizeText(max));
}

Written SizeForm::Print(int64_t value) const { return SizeText(value); }

absl::StatusOr<int64_t> SizeForm::Read(const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  const std::optional<int64_t> size = ParseSize(*word);
  if (!size) return NotA(*word, "a size such as 4096, 64KiB or 25MiB");
  return *size;
}

std::string SizeForm::Fault(int64_t value, const JobSpec&) const {
  return value < min || value > max ? Outside(SizeText(value), Domain()) : "";
}

std::string DurationForm::Domain() const {
  return absl::StrCat(DurationText(min), " to ", DurationText(max),
                      ", whole milliseconds");
}

Written DurationForm::Print(absl::Duration value) const {
  return DurationText(value);
}

absl::StatusOr<absl::Duration> DurationForm::Read(
    const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  const std::optional<absl::Duration> duration = ParseDuration(*word);
  if (!duration) return NotA(*word, "a duration such as 500ms, 10s or 5m");
  return *duration;
}

std::string DurationForm::Fault(absl::Duration value, const JobSpec&) const {
  const bool whole = value == absl::Floor(value, absl::Milliseconds(1));
  return value < min || value > max || !whole
             ? Outside(DurationText(value), Domain())
             : "";
}

// --- Words ------------------------------------------------------------------

absl::StatusOr<bool> BoolForm::Read(const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  if (*word == "true") return true;
  if (*word == "false") return false;
  return NotA(*word, absl::StrCat("one of ", Domain()));
}

template <typename T>
std::string ChoiceForm<T>::Domain() const {
  return absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
    out->append(choice.first);
  });
}

template <typename T>
Written ChoiceForm<T>::Print(const T& value) const {
  for (const auto& [word, meaning] : choices) {
    if (meaning == value) return word;
  }
  if constexpr (std::is_enum_v<T>) {
    return absl::StrCat(static_cast<int>(value));
  } else {
    return value;
  }
}

template <typename T>
absl::StatusOr<T> ChoiceForm<T>::Read(const Written& written) const {
  const absl::StatusOr<std::string> word = WordOf(written);
  if (!word.ok()) return word.status();
  for (const auto& [choice, meaning] : choices) {
    if (choice == *word) return meaning;
  }
  return NotA(*word, absl::StrCat("one of ", Domain()));
}

template <typename T>
std::string ChoiceForm<T>::Fault(const T& value, const JobSpec&) const {
  for (const auto& [word, meaning] : choices) {
    if (meaning == value) return "";
  }
  return Outside(Quoted(WordText(Print(value))), Domain());
}

template struct ChoiceForm<SyncMode>;
template struct ChoiceForm<DataPlane>;
template struct ChoiceForm<OnStuck>;
template struct ChoiceForm<OnUnsubmitted>;
template struct ChoiceForm<Overlap>;
template struct ChoiceForm<PipelineSchedule>;
template struct ChoiceForm<PipelineTags>;
template struct ChoiceForm<Rebuild>;
template struct ChoiceForm<Uneven>;
template struct ChoiceForm<std::string>;

std::string NameForm::Domain() const {
  return absl::StrFormat(
      "1 to %d letters, digits, '.', '_' and '-', first a letter or a digit",
      kNameBytesMax);
}

absl::StatusOr<std::string> NameForm::Read(const Written& written) const {
  return WordOf(written);
}

std::string NameForm::Fault(const std::string& value, const JobSpec&) const {
  return IsName(value) ? "" : Outside(Quoted(value), Domain());
}

// --- Lists and maps ---------------------------------------------------------

std::string WorkersForm::Domain() const {
  return "none, or as many distinct names as there are ranks and spares";
}

absl::StatusOr<std::vector<std::string>> WorkersForm::Read(
    const Written& written) const {
  if (const auto* list = std::get_if<WrittenList>(&written)) return *list;
  return absl::InvalidArgumentError("is not a list, such as [a, b]");
}

std::string WorkersForm::Fault(const std::vector<std::string>& value,
                               const JobSpec& spec) const {
  std::set<absl::string_view> seen;
  for (const std::string& name : value) {
    if (!IsName(name)) return Outside(Quoted(name), NameForm().Domain());
    if (!seen.insert(name).second) {
      return absl::StrCat(Quoted(name), " is there twice");
    }
  }
  const int64_t ranks = spec.mesh.WorldSize();
  const int64_t spares = spec.limits.spares;
  const auto names = static_cast<int64_t>(value.size());
  if (names == 0 || names == ranks + spares) return "";
  return absl::StrFormat(
      "has %s, but mesh %s has %s%s", Count(names, "name"), ToString(spec.mesh),
      Count(ranks, "rank"),
      spares == 0
          ? ""
          : absl::StrCat(", and ", spares == 1 ? "there is " : "there are ",
                         Count(spares, "spare")));
}

std::string MeshForm::Domain() const {
  return "distinct names (a letter, then letters, digits and _) with sizes of "
         "at least 1, up to 1048576 ranks";
}

absl::StatusOr<Mesh> MeshForm::Read(const Written& written) const {
  if (const auto* word = std::get_if<std::string>(&written)) {
    return ParseMesh(*word);
  }
  const auto* axes = std::get_if<WrittenMap>(&written);
  if (axes == nullptr) {
    return absl::InvalidArgumentError(
        "is a list, but takes axes such as data=2,pipe=4");
  }
  Mesh mesh;
  for (const auto& [name, size] : *axes) {
    MeshAxis axis{.name = name};
    if (!absl::SimpleAtoi(size, &axis.size)) {
      return NotA(size, absl::StrCat("the size of axis ", Quoted(name)));
    }
    mesh.axes.push_back(axis);
  }
  return mesh;
}

std::string MeshForm::Fault(const Mesh& value, const JobSpec&) const {
  return std::string(Validate(value).message());
}

}  // namespace lockstep::spec

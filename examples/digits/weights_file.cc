#include "examples/digits/weights_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/user_file.h"

namespace lockstep::digits {
namespace {

constexpr size_t kBytesMax = size_t{1} << 30;

// Reads a file's lines and counts them, for error messages.
class Lines {
 public:
  Lines(const std::string& path, const std::string& text)
      : path_(path), text_(text) {}

  bool Next() { return static_cast<bool>(std::getline(text_, line_)) && ++at_; }
  const std::string& line() const { return line_; }
  absl::Status Wrong(absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": line ", at_, ": \"", line_, "\" is no ", expected));
  }
  absl::Status EndsWithin(absl::string_view name) const {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": ends after line ", at_, ", among the values of ", name));
  }

 private:
  const std::string path_;
  std::istringstream text_;
  std::string line_;
  int at_ = 0;
};

absl::StatusOr<NamedWeights> ReadParameter(Lines& lines) {
  const std::pair<std::string, std::string> heading =
      absl::StrSplit(lines.line(), absl::MaxSplits(' ', 1));
  uint32_t count = 0;
  if (heading.first.empty() || !absl::SimpleAtoi(heading.second, &count)) {
    return lines.Wrong("name and number of values");
  }
  NamedWeights weights{.name = heading.first};
  for (uint32_t i = 0; i < count; ++i) {
    if (!lines.Next()) return lines.EndsWithin(weights.name);
    double value = 0;
    if (!absl::SimpleAtod(lines.line(), &value)) return lines.Wrong("number");
    weights.values.push_back(value);
  }
  return weights;
}

std::string Heading(const NamedWeights& weights) {
  return absl::StrCat(weights.name, " ", weights.values.size());
}

}  // namespace

template <typename T>
std::vector<NamedWeights> Snapshot(absl::Span<Parameter<T>* const> parameters) {
  std::vector<NamedWeights> weights;
  for (const Parameter<T>* parameter : parameters) {
    const absl::Span<const T> value = parameter->value();
    weights.push_back({parameter->name(), {value.begin(), value.end()}});
  }
  return weights;
}

absl::Status WriteWeights(const std::string& path,
                          absl::Span<const NamedWeights> weights) {
  std::string text;
  for (const NamedWeights& parameter : weights) {
    absl::StrAppend(&text, Heading(parameter), "\n");
    for (double value : parameter.values) {
      absl::StrAppendFormat(&text, "%.17g\n", value);
    }
  }
  return WriteUserFile(path, text);
}

absl::StatusOr<std::vector<NamedWeights>> ReadWeights(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadUserFile(path, kBytesMax);
  if (!text.ok()) return text.status();
  Lines lines(path, *text);
  std::vector<NamedWeights> weights;
  while (lines.Next()) {
    absl::StatusOr<NamedWeights> parameter = ReadParameter(lines);
    if (!parameter.ok()) return parameter.status();
    weights.push_back(*std::move(parameter));
  }
  return weights;
}

absl::StatusOr<double> LargestDifference(absl::Span<const NamedWeights> a,
                                         absl::Span<const NamedWeights> b) {
  double largest = 0;
  for (size_t p = 0; p < std::max(a.size(), b.size()); ++p) {
    const std::string in_a = p < a.size() ? Heading(a[p]) : "nothing";
    const std::string in_b = p < b.size() ? Heading(b[p]) : "nothing";
    if (in_a != in_b) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", p, " is ",
                                                     in_a, " in one and ", in_b,
                                                     " in the other"));
    }
    for (size_t i = 0; i < a[p].values.size(); ++i) {
      const double distance = std::abs(a[p].values[i] - b[p].values[i]);
      if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

template std::vector<NamedWeights> Snapshot(
    absl::Span<Parameter<float>* const>);
template std::vector<NamedWeights> Snapshot(
    absl::Span<Parameter<double>* const>);

}  // namespace lockstep::digits

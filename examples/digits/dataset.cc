#include "examples/digits/dataset.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/user_file.h"
#include "examples/digits/random.h"

namespace lockstep::digits {
namespace {

constexpr int kFields = kPixels + 1;

absl::StatusOr<uint8_t> ParseField(absl::string_view text, int field) {
  const bool is_label = field == kPixels;
  const int most = is_label ? kClasses - 1 : kDarkest;
  int value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 0 && value <= most) {
    return static_cast<uint8_t>(value);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("field ", field + 1, ": \"", text, "\" is no ",
                   is_label ? "label" : "pixel", ", an integer 0..", most));
}

absl::StatusOr<Digit> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != kFields) {
    return absl::InvalidArgumentError(
        absl::StrCat("fields: ", fields.size(), ", expected ", kFields, " (",
                     kPixels, " pixels and a label)"));
  }
  Digit digit;
  for (int field = 0; field < kFields; ++field) {
    const absl::StatusOr<uint8_t> value = ParseField(fields[field], field);
    if (!value.ok()) return value.status();
    (field < kPixels ? digit.pixels[field] : digit.label) = *value;
  }
  return digit;
}

absl::Status Within(absl::string_view place, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(place, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Dataset> ParseDigits(std::string_view csv) {
  std::vector<absl::string_view> lines =
      absl::StrSplit(absl::string_view(csv.data(), csv.size()), '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty()) return absl::InvalidArgumentError("no line of digits");

  Dataset dataset;
  dataset.reserve(lines.size());
  for (absl::string_view line : lines) {
    const absl::StatusOr<Digit> digit = ParseLine(line);
    if (!digit.ok()) {
      return Within(absl::StrCat("line ", dataset.size() + 1), digit.status());
    }
    dataset.push_back(*digit);
  }
  return dataset;
}

absl::StatusOr<Dataset> ReadDigits(const std::string& path) {
  const absl::StatusOr<std::string> text =
      ReadUserFile(path, kHandwrittenBytesMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<Dataset> dataset = ParseDigits(*text);
  if (!dataset.ok()) return Within(path, dataset.status());
  return dataset;
}

absl::StatusOr<Split> SplitRows(int rows) {
  if (rows < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows cannot be split into training and test"));
  }
  const std::vector<int> order = Permutation(Dice(0, "split"), rows);
  Split split;
  for (int i = 0; i < rows; ++i) {
    (i % 5 == 0 ? split.test : split.train).push_back(order[i]);
  }
  return split;
}

template <typename T>
Tensor<T> Images(const Dataset& dataset, absl::Span<const int> rows) {
  Tensor<T> images(static_cast<int>(rows.size()), {kSide, kSide, 1});
  T* out = images.values().data();
  for (int row : rows) {
    for (uint8_t pixel : dataset[row].pixels) {
      *out++ = static_cast<T>(pixel) / (kDarkest / 2) - 1;
    }
  }
  return images;
}

std::vector<int> Labels(const Dataset& dataset, absl::Span<const int> rows) {
  std::vector<int> labels;
  labels.reserve(rows.size());
  for (int row : rows) labels.push_back(dataset[row].label);
  return labels;
}

template Tensor<float> Images(const Dataset&, absl::Span<const int>);
template Tensor<double> Images(const Dataset&, absl::Span<const int>);

}  // namespace lockstep::digits

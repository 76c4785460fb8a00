// The UCI hand-written digits: 1,797 images of 8x8 pixels with their labels.
//
// Text form, one image per line: 64 pixels row by row, then the label.
//
//   0,0,5,13,9,1,0,0, ... ,10,0,0,0,0
//   └──── 64 pixels, 0..16 ───┘     └ label, 0..9
//
// The file is embedded in the program (data/SOURCE.md has its origin).

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DATASET_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DATASET_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

inline constexpr int kSide = 8;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kDarkest = 16;
inline constexpr int kClasses = 10;

struct Digit {
  std::array<uint8_t, kPixels> pixels;  // row by row, 0..kDarkest
  uint8_t label;                        // 0..kClasses-1
};

using Dataset = std::vector<Digit>;

// InvalidArgument names line and field (both from 1) and the text there, or
// reports that there are no lines.
absl::StatusOr<Dataset> ParseDigits(std::string_view csv);

// As ParseDigits, with the path before every message. NotFound if the file
// cannot be read.
absl::StatusOr<Dataset> ReadDigits(const std::string& path);

// The text of data/digits.csv at the time of the build.
std::string_view EmbeddedCsv();

// The rows for training and for testing.
struct Split {
  std::vector<int> train;
  std::vector<int> test;
};

// Every fifth row of a fixed permutation is for testing: 1,437 and 360 rows of
// the whole dataset, the same in every run. InvalidArgument for fewer than two
// rows.
absl::StatusOr<Split> SplitRows(int rows);

// The images of these rows, each pixel in -1..1, where -1 is empty.
template <typename T>
Tensor<T> Images(const Dataset& dataset, absl::Span<const int> rows);

std::vector<int> Labels(const Dataset& dataset, absl::Span<const int> rows);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DATASET_H_

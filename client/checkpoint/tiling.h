// Boxes of integer points, and whether several fill a space exactly once.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_TILING_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_TILING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "protocol/tensor_box.h"

namespace lockstep::checkpoint {

// What is wrong with the boxes as the parts of a tensor of `shape`; empty if
// each element is in exactly one. Elements of the whole must be countable in 64
// bits. Boxes without elements are wrong, except in a tensor without elements.
//
// Sorts by the dimension with the most different begins, so that boxes that
// divide a tensor mostly along one dimension take n log n steps.
std::string TilingFault(absl::Span<const int64_t> shape,
                        absl::Span<const TensorBox> boxes);

// Whether the box has as many dimensions as `shape` and no point beyond it. A
// box without points may be at its end.
bool IsInside(absl::Span<const int64_t> shape, const TensorBox& box);

// "[0,4] of shape [2,2]": for messages.
std::string BoxText(const TensorBox& box);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_TILING_H_

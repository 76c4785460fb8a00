// Whether boxes fill a space of integer points exactly once.
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

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_TILING_H_

// Which bytes of a stored slice a box of its tensor needs, and where they
// belong in the memory of the box. Both are dense and row-major.
//
//   slice, as stored        box, in memory
//   . . . .                 . . . .
//   . . a b                 a b . .       runs of two elements:
//   . . c d                 c d . .       ab from 6 to 4, cd from 10 to 8
//
// A run is contiguous in both, and as long as possible; all runs have one
// length. They are in rising order of the slice's bytes.
//
// Threads: a value.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SLICE_RUNS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SLICE_RUNS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "client/checkpoint/tiling.h"

namespace lockstep::checkpoint {

// Begins at the first run.
class SliceRuns {
 public:
  // Both boxes are inside of one tensor, whose size in bytes 64 bits can have.
  SliceRuns(const TensorBox& slice, const TensorBox& box, size_t element_bytes);

  // Without runs left there is no current one. There are none at all if the
  // boxes have no common elements.
  bool AtEnd() const { return left_ == 0; }
  void Next();

  // The length of each run.
  uint64_t run_bytes() const { return run_bytes_; }
  // Where the current run begins, in bytes of the slice and of the box.
  uint64_t from() const { return from_; }
  uint64_t to() const { return to_; }

 private:
  // Steps from run to run, the innermost dimension first.
  struct Dimension {
    uint64_t extent = 0;
    uint64_t from_stride = 0, to_stride = 0;
    uint64_t at = 0;
  };

  // `extent` points with these strides in bytes.
  void Add(uint64_t extent, uint64_t from_stride, uint64_t to_stride);

  absl::InlinedVector<Dimension, 4> dimensions_;
  uint64_t run_bytes_;
  uint64_t from_ = 0, to_ = 0;
  uint64_t left_ = 1;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SLICE_RUNS_H_

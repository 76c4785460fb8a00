// The pipeline stages of the network, for the worker and for the demo's spec.
//
//   4 stages   conv1 relu1 │ conv2 relu2 pool1 │ conv3 relu3 pool2 │ dense ...

#ifndef LOCKSTEP_EXAMPLES_DIGITS_STAGES_H_
#define LOCKSTEP_EXAMPLES_DIGITS_STAGES_H_

#include <algorithm>
#include <cstdint>

#include "examples/digits/network.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

// The first block of a stage; for `stages`, the end. At most one stage per
// block.
inline int FirstBlock(int stage, int stages) {
  return (kDigitsBlocks * stage + stages / 2) / stages;
}

inline Network<double> StageNetwork(uint64_t seed, int stage, int stages,
                                    RowDomain<double>* domain = nullptr) {
  return DigitsNetwork<double>(seed, FirstBlock(stage, stages),
                               FirstBlock(stage + 1, stages), domain);
}

// The shape of one sample, of a rank's rows where images are cut among
// `domain_size` ranks.
inline Shape OutputOfStage(int stage, int stages, int domain_size = 1) {
  Shape shape = StageNetwork(/*seed=*/1, stage, stages).output_shape();
  const int last = FirstBlock(stage + 1, stages) - 1;
  bool is_dense = false;
  for (int i = 0; i <= last; ++i) {
    is_dense |= kDigitsLayers[i].kind == LayerKind::kDense;
  }
  if (!is_dense) shape.height /= domain_size;
  return shape;
}

// Enough for every schedule, and a divisor of a replica's samples.
inline int MicroBatches(int pipe_ranks) { return std::max(4, pipe_ranks); }

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_STAGES_H_

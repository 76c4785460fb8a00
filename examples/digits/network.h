// Blocks in a row: the whole network, or one pipeline stage of it.
//
//   image 8x8x1
//     0 conv1   8x8x16     5 conv3   4x4x32     9 relu4    64
//     1 relu1   8x8x16     6 relu3   4x4x32    10 dense2   10   the logits
//     2 conv2   8x8x16     7 pool2   2x2x32
//     3 relu2   8x8x16     8 dense1  64
//     4 pool1   4x4x16

#ifndef LOCKSTEP_EXAMPLES_DIGITS_NETWORK_H_
#define LOCKSTEP_EXAMPLES_DIGITS_NETWORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/block.h"
#include "examples/digits/layers.h"

namespace lockstep::digits {

// What one forward pass leaves for its backward pass: an entry a block.
template <typename T>
struct Footprint {
  Tensor<T> saved;
  Tensor<T> d_output;  // filled by BackwardInput, for BackwardWeights
};
template <typename T>
using Trail = std::vector<Footprint<T>>;

// Told of each parameter whose gradient is complete. An error ends backward.
template <typename T>
using GradientReady = absl::FunctionRef<absl::Status(Parameter<T>&)>;

// Told of each parameter that is used next. An error ends forward.
template <typename T>
using ParameterNeeded = absl::FunctionRef<absl::Status(Parameter<T>&)>;

// Threads: as Block. Several trails may be under way at once.
template <typename T>
class Network {
 public:
  // At least one block; each takes what the one before it gives.
  explicit Network(std::vector<std::unique_ptr<Block<T>>> blocks);

  const Shape& input_shape() const { return blocks_.front()->input_shape(); }
  const Shape& output_shape() const { return blocks_.back()->output_shape(); }

  // All parameters, in the order of the forward pass.
  const std::vector<Parameter<T>*>& parameters() const { return parameters_; }
  void ZeroGradients();

  // Without a trail (null) there is no way back: for evaluation.
  Tensor<T> Forward(Tensor<T> input, Trail<T>* trail) const;
  // For parameters that are still on their way here: each is waited for as late
  // as it can be. The first error of `needed`.
  absl::StatusOr<Tensor<T>> Forward(Tensor<T> input, Trail<T>* trail,
                                    ParameterNeeded<T> needed) const;

  // Both halves of backward, block by block from the last, which is told of
  // each parameter as early as it can be: its gradient travels while the blocks
  // before it are still at work. Parameters become ready in exactly the reverse
  // order of parameters(). Returns d_input, or the first error of `ready`.
  absl::StatusOr<Tensor<T>> Backward(Tensor<T> d_output, const Trail<T>& trail,
                                     GradientReady<T> ready);

  // The halves apart, for schedules that put other work between them. The first
  // returns d_input and keeps what the second needs in `trail`; the second may
  // be called once for it, at any later time.
  Tensor<T> BackwardInput(Tensor<T> d_output, Trail<T>* trail) const;
  absl::Status BackwardWeights(const Trail<T>& trail, GradientReady<T> ready);

 private:
  absl::Status WeightsOf(Block<T>& block, const Tensor<T>& d_output,
                         const Tensor<T>& saved, GradientReady<T> ready);

  const std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::vector<Parameter<T>*> parameters_;
};

// Blocks first .. last-1 of the picture above. A block starts with the same
// bits whatever range it is made in.
template <typename T>
Network<T> DigitsNetwork(uint64_t seed, int first = 0,
                         int last = kDigitsBlocks);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_NETWORK_H_

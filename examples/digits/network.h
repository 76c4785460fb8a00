// A sequence of blocks: the whole network, or one pipeline stage of it.
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
#include "examples/digits/row_domain.h"

namespace lockstep::digits {

// What one forward pass keeps for its backward pass: one entry per block.
template <typename T>
struct Footprint {
  Tensor<T> saved;
  Tensor<T> d_output;  // filled by BackwardInput, for BackwardWeights
};
template <typename T>
using Trail = std::vector<Footprint<T>>;

// Called for each parameter whose gradient is complete. An error ends backward.
template <typename T>
using GradientReady = absl::FunctionRef<absl::Status(Parameter<T>&)>;

// Called for each parameter before its use. An error ends forward.
template <typename T>
using ParameterNeeded = absl::FunctionRef<absl::Status(Parameter<T>&)>;

// Threads: as Block. Several trails may be in flight at once.
template <typename T>
class Network {
 public:
  // At least one block; each takes the output of the previous one.
  explicit Network(std::vector<std::unique_ptr<Block<T>>> blocks);

  const Shape& input_shape() const { return blocks_.front()->input_shape(); }
  const Shape& output_shape() const { return blocks_.back()->output_shape(); }

  // All parameters, in the order of the forward pass.
  const std::vector<Parameter<T>*>& parameters() const { return parameters_; }
  void ZeroGradients();

  // `trail` null: no backward pass follows (evaluation).
  Tensor<T> Forward(Tensor<T> input, Trail<T>* trail) const;
  // For parameters that are still being gathered: waits for each as late as
  // possible. Returns the first error of `needed`.
  absl::StatusOr<Tensor<T>> Forward(Tensor<T> input, Trail<T>* trail,
                                    ParameterNeeded<T> needed) const;

  // Runs both halves of backward, block by block from the last. `ready` is
  // called for each parameter as early as possible, so that its gradient is
  // reduced while earlier blocks compute. Parameters become ready in exactly
  // the reverse order of parameters(). Returns d_input, or the first error of
  // `ready`.
  absl::StatusOr<Tensor<T>> Backward(Tensor<T> d_output, const Trail<T>& trail,
                                     GradientReady<T> ready);

  // The halves separately, for schedules that do other work in between. The
  // first returns d_input and keeps in `trail` what the second needs. The
  // second may be called once for it, at any later time.
  Tensor<T> BackwardInput(Tensor<T> d_output, Trail<T>* trail) const;
  absl::Status BackwardWeights(const Trail<T>& trail, GradientReady<T> ready);

 private:
  absl::Status WeightsOf(Block<T>& block, const Tensor<T>& d_output,
                         const Tensor<T>& saved, GradientReady<T> ready);

  const std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::vector<Parameter<T>*> parameters_;
};

// Builds blocks first .. last-1 of the picture above. The initial values of a
// block do not depend on the range. With a domain the images are this rank's
// rows, and are gathered before the first dense layer.
template <typename T>
Network<T> DigitsNetwork(uint64_t seed, int first = 0, int last = kDigitsBlocks,
                         RowDomain<T>* domain = nullptr);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_NETWORK_H_

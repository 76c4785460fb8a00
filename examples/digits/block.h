// A layer of the network: maps a batch of activations to another batch.
//
//   input ──Forward──▶ output              keeps `saved` for the backward pass
//   d_input ◀──BackwardInput── d_output      needed by the previous block
//             BackwardWeights── d_output      adds to the parameters' gradients
//
// The two halves of backward are independent: the first is on the critical path
// of a pipeline, the second may run at any later time, as long as `saved` and
// `d_output` are kept. A block has no other state that changes between forward
// and backward, so several micro-batches may be in flight at once, each with
// its own `saved`, and a pipeline may be cut after any block.
//
// "d_x" means dLoss/dx.
//
// Threads: none of its own. BackwardWeights writes gradients: two calls on one
//          block must not be concurrent.
// Errors:  aborts for a batch whose shape is not the block's, and for a `saved`
//          of another batch.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_BLOCK_H_
#define LOCKSTEP_EXAMPLES_DIGITS_BLOCK_H_

#include <string>
#include <utility>
#include <vector>

#include "examples/digits/parameter.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

template <typename T>
class Block {
 public:
  virtual ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // "conv1": the same on every rank that has the block.
  const std::string& name() const { return name_; }
  // The shapes of one sample; the batch may have any size.
  const Shape& input_shape() const { return input_shape_; }
  const Shape& output_shape() const { return output_shape_; }

  // Fills `saved` with what backward needs; null: there is no backward pass.
  virtual Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const = 0;

  virtual Tensor<T> BackwardInput(const Tensor<T>& d_output,
                                  const Tensor<T>& saved) const = 0;

  // Adds to the gradients of parameters(), sample after sample.
  virtual void BackwardWeights(const Tensor<T>& /*d_output*/,
                               const Tensor<T>& /*saved*/) {}

  // In the order of the forward pass; valid as long as the block.
  virtual std::vector<Parameter<T>*> parameters() { return {}; }

 protected:
  Block(std::string name, Shape input, Shape output)
      : name_(std::move(name)), input_shape_(input), output_shape_(output) {}

  void CheckInput(const Tensor<T>& input) const;
  void CheckOutput(const Tensor<T>& d_output) const;
  // Checks that `saved` is of the same batch.
  void CheckSaved(const Tensor<T>& d_output, const Tensor<T>& saved) const;

 private:
  const std::string name_;
  const Shape input_shape_;
  const Shape output_shape_;
};

// Fills a weight with uniform random numbers of variance 2 / fan_in (He et al.
// 2015). Equal seeds and names give equal bits on every rank and platform: it
// uses only products and one square root, which IEEE 754 rounds exactly.
template <typename T>
void Initialise(uint64_t seed, int fan_in, Parameter<T>* weight);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_BLOCK_H_

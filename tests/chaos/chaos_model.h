// The model that chaos_worker trains and chaos_replay trains again: a small
// network, in f64, whose state also counts how often each sample was used.
//
//   sample ─▶ row of an embedding ─▶ tanh layer ─▶ softmax ─▶ loss
//
// A gradient is a sum over samples; Apply divides it by the global batch. So
// the weights depend on the number of ranks but for rounding.
//
// Threads: none of its own. Ownership: the model owns its values.

#ifndef LOCKSTEP_TESTS_CHAOS_CHAOS_MODEL_H_
#define LOCKSTEP_TESTS_CHAOS_CHAOS_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lockstep/samples.h"

namespace lockstep::chaos {

inline constexpr int64_t kSamples = 4096;
inline constexpr int64_t kBatch = 48;

SampleStream StreamOf(uint64_t seed);

// A parameter, with its momentum.
struct Tensor {
  std::string name;
  std::vector<double> values;
  std::vector<double> momentum;
};

class Model {
 public:
  enum Index { kEmbedding, kHidden, kOutput, kUses, kTensors };

  explicit Model(uint64_t seed);

  // The gradient of each tensor over these samples, into `gradients`, which it
  // overwrites.
  void AddGradients(const std::vector<int64_t>& samples,
                    const std::vector<absl::Span<double>>& gradients) const;

  // The update with the sum of all ranks' gradients.
  void Apply(const std::vector<absl::Span<double>>& gradients);

  // A hash of all values and momenta.
  uint64_t Hash() const;

  // All values, tensor by tensor.
  std::vector<double> Values() const;

  std::vector<Tensor>& tensors() { return tensors_; }
  int64_t* steps() { return &steps_; }
  int64_t steps_applied() const { return steps_; }

 private:
  std::vector<Tensor> tensors_;
  int64_t steps_ = 0;
};

}  // namespace lockstep::chaos

#endif  // LOCKSTEP_TESTS_CHAOS_CHAOS_MODEL_H_

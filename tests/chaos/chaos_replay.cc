// Trains as chaos_worker did, without faults: one process plays all ranks.
//
//   chaos_replay SEED HISTORY WEIGHTS
//
// HISTORY has lines "STEPS WORLD": so many steps with so many ranks. WEIGHTS
// has the f64 values that a worker wrote at its end. Ends with code 0 if they
// are those of the replay: the uses of each sample exactly, the others within
// 1e-9. Prints the largest difference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "tests/chaos/chaos_model.h"

namespace {

using lockstep::ShareOfStep;
using lockstep::chaos::Model;

constexpr double kToleranceOfWeights = 1e-9;

// A model's worth of gradients.
class Gradients {
 public:
  explicit Gradients(Model& model) {
    for (const auto& tensor : model.tensors()) {
      memory_.emplace_back(tensor.values.size());
    }
  }
  std::vector<absl::Span<double>> views() {
    return {memory_.begin(), memory_.end()};
  }
  void Add(const Gradients& other) {
    for (size_t t = 0; t < memory_.size(); ++t) {
      for (size_t i = 0; i < memory_[t].size(); ++i) {
        memory_[t][i] += other.memory_[t][i];
      }
    }
  }

 private:
  std::vector<std::vector<double>> memory_;
};

void Step(Model& model, uint64_t seed, int world) {
  static Gradients sum(model), part(model);
  for (int rank = 0; rank < world; ++rank) {
    const auto samples = ShareOfStep(lockstep::chaos::StreamOf(seed),
                                     model.steps_applied(), rank, world);
    model.AddGradients(samples, rank == 0 ? sum.views() : part.views());
    if (rank > 0) sum.Add(part);
  }
  model.Apply(sum.views());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: chaos_replay SEED HISTORY WEIGHTS\n", stderr);
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  Model model(seed);
  std::ifstream history(argv[2]);
  int64_t steps = 0;
  int world = 0;
  while (history >> steps >> world) {
    for (int64_t s = 0; s < steps; ++s) Step(model, seed, world);
  }
  const std::vector<double> expected = model.Values();
  std::vector<double> trained(expected.size());
  std::ifstream file(argv[3], std::ios::binary);
  const auto bytes =
      static_cast<std::streamsize>(trained.size() * sizeof(double));
  file.read(reinterpret_cast<char*>(trained.data()), bytes);
  if (file.gcount() != bytes) {
    std::fprintf(stderr, "%s has %lld bytes, not %lld\n", argv[3],
                 static_cast<long long>(file.gcount()),
                 static_cast<long long>(bytes));
    return 1;
  }
  const auto uses = expected.size() - lockstep::chaos::kSamples;
  double largest = 0;
  int64_t wrong_uses = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= uses) {
      wrong_uses += expected[i] != trained[i];
    } else {
      // NaN is no small difference.
      const double difference = std::abs(expected[i] - trained[i]);
      if (!(difference <= largest)) largest = difference;
    }
  }
  std::printf(
      "%lld steps: largest difference of a weight %.3g, %lld samples "
      "used another number of times\n",
      static_cast<long long>(model.steps_applied()), largest,
      static_cast<long long>(wrong_uses));
  return largest <= kToleranceOfWeights && wrong_uses == 0 ? 0 : 1;
}

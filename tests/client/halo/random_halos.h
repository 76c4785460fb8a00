// Random jobs of ranks that exchange halos, with inputs, and the outputs that
// halo_model.h has for them.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_RANDOM_HALOS_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_RANDOM_HALOS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/client/halo/halo_model.h"
#include "tests/conformance/halo/halo_ranks.h"

namespace lockstep::halo_model {

using Bytes = std::vector<std::byte>;
using ExchangeBytes = std::vector<std::vector<Bytes>>;  // [rank][tensor]

// What the ranks declare: all have the same exchanges in the same order.
struct HaloJob {
  Mesh mesh;
  conformance::HaloDeclarations declared;

  int ranks() const { return static_cast<int>(declared.size()); }
  size_t exchanges() const { return declared[0].size(); }
  // One declaration of each rank.
  std::vector<HaloTensor> TensorsOf(size_t exchange, size_t tensor) const;
  std::string Describe() const;
};

// One exchange of a job: its models and values.
struct ExchangeValues {
  std::vector<TensorModel> models;  // by tensor
  ExchangeBytes blocks, padded;
  ExchangeBytes padded_gradients, block_gradients;
};

// Limits on what is drawn; without them everything is.
struct DrawLimits {
  std::optional<DType> dtype;
  std::optional<HaloEdge> edge;
  int exchanges_max = 2;
  // The last dimension of a tensor has as many times more cells, so messages
  // are larger and their runs longer.
  int longer_rows = 1;
};

class RandomHalos {
 public:
  explicit RandomHalos(uint64_t seed) : random_(seed) {}

  int Draw(int below) {
    return static_cast<int>(random_() % static_cast<uint64_t>(below));
  }
  HaloJob DrawJob(const DrawLimits& limits = {});
  // Blocks of any bits; gradients whose sums are exact in any order.
  ExchangeValues DrawValues(const HaloJob& job, size_t exchange);
  // As many numbers in [-1, 1), as f32 or f64.
  template <typename T>
  Bytes DrawReals(int64_t cells);

 private:
  Mesh DrawMesh();
  // A tensor of all ranks.
  std::vector<HaloTensor> DrawTensor(const Mesh& mesh,
                                     const DrawLimits& limits);
  HaloDim DrawDim(int64_t size, int dims, const DrawLimits& limits);
  void DrawGradients(DType dtype, const TensorModel& model,
                     const std::vector<HaloTensor>& tensors,
                     ExchangeValues* values);

  std::mt19937_64 random_;
};

}  // namespace lockstep::halo_model

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_RANDOM_HALOS_H_

// Halo exchanges computed from their definition: the whole field, padded
// dimension by dimension, from which each rank takes its part.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_HALO_MODEL_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_HALO_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/halo_exchange.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"

namespace lockstep::halo_model {

// Where a cell of a padded block is copied from.
struct CellSource {
  int rank = -1;     // whose block; -1: it is constant
  int64_t cell = 0;  // of the block, row-major
  double constant = 0;
};

// One tensor of an exchange, by rank.
struct TensorModel {
  std::vector<HaloBlock> blocks;
  std::vector<std::vector<int64_t>> padded_shapes;
  std::vector<std::vector<CellSource>> padded;  // cells, row-major
};

// `tensors`: what each rank of the mesh declares.
TensorModel ModelOf(const Mesh& mesh, const std::vector<HaloTensor>& tensors);

int64_t CellsOf(const std::vector<int64_t>& shape);

// The cells of a box of an array, row-major: their numbers in it.
std::vector<int64_t> CellsOfBox(const std::vector<int64_t>& array,
                                const std::vector<int64_t>& begin,
                                const std::vector<int64_t>& extent);

}  // namespace lockstep::halo_model

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_HALO_MODEL_H_

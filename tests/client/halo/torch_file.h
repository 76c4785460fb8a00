// Reads tests/conformance/halo/layers.jsonl: convolutions and norms that
// PyTorch has computed. README.md there describes the format.

#ifndef LOCKSTEP_TESTS_CLIENT_HALO_TORCH_FILE_H_
#define LOCKSTEP_TESTS_CLIENT_HALO_TORCH_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/domain_norm.h"
#include "tests/client/halo/reference_conv.h"

namespace lockstep::halo_test {

struct TorchConvCase {
  std::string line;  // of the file, for messages
  ConvPlane layer;   // a 1-D layer has its dimension along the rows
  Tensor4 x, dy;
  ConvWeights weights;
  // Expected.
  Tensor4 y;
  ConvGradients gradients;
};

struct TorchNormCase {
  std::string line;
  NormKind kind;
  int64_t groups;
  double epsilon;
  Tensor4 x, dy;
  std::vector<double> gamma, beta;
  // Expected.
  std::vector<double> y, dx, dgamma, dbeta;
  std::vector<double> mean, unbiased_variance;  // kBatch
};

struct TorchCases {
  std::vector<TorchConvCase> convs;
  std::vector<TorchNormCase> norms;
};

// Fails the test where the file cannot be read.
TorchCases ReadTorchCases();

}  // namespace lockstep::halo_test

#endif  // LOCKSTEP_TESTS_CLIENT_HALO_TORCH_FILE_H_

#include <algorithm>

#include "examples/digits/device/launch.h"

namespace lockstep::digits {
namespace {

constexpr int64_t kThreads = 128;
constexpr int64_t kBlocksMax = 4096;

template <typename B>
__global__ void Run(B body, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    body(i);
  }
}

template <typename T>
int Launch(const Body<T>& body, int64_t n, CUstream_st* stream) {
  if (n == 0) return 0;
  const int64_t blocks = std::min((n + kThreads - 1) / kThreads, kBlocksMax);
  std::visit(
      [&](const auto& of) {
        Run<<<static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0,
              stream>>>(of, n);
      },
      body);
  return cudaGetLastError();
}

}  // namespace

int LaunchBody(const Body<double>& body, int64_t n, CUstream_st* stream) {
  return Launch(body, n, stream);
}
int LaunchBody(const Body<float>& body, int64_t n, CUstream_st* stream) {
  return Launch(body, n, stream);
}

}  // namespace lockstep::digits

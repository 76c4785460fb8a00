#include "tests/gpu/device.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace lockstep::gpu {

std::string WhyNoGpu() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorNoDevice) return "there is no device";
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return "there is no driver";
    return "the driver is for CUDA " + std::to_string(driver / 1000) + "." +
           std::to_string(driver % 1000 / 10) + ", which is too old";
  }
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return devices == 0 ? "there is no device" : "";
}

void Require(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what,
               cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::abort();
}

void Synchronize() {
  Require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

Memory::Memory(size_t bytes) {
  Require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "cudaMalloc");
}

Memory::~Memory() { cudaFree(data_); }

void Memory::Write(const void* from, size_t bytes) {
  Require(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void Memory::Read(void* to, size_t bytes) const {
  Require(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

}  // namespace lockstep::gpu

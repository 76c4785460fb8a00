#include "kernels/device/slots.cuh"
#include "kernels/device/verdict_gate.h"

namespace lockstep::kernels::device {
namespace {

// Every thread reads the scalars itself: one cache line, shared by the block.
template <class T>
struct CommitOut {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = true, kWritesBucket = false;
  const VerdictScalars* verdict;
  Compute<T> factor = 0;
  __device__ bool Begins() {
    factor = static_cast<Compute<T>>(verdict->clip);
    return MayUpdate(*verdict);
  }
  __device__ void operator()(T& t, T& b) const { t = Scaled<T>(b, factor); }
};

__global__ void __launch_bounds__(kThreads)
    CommitBytes(const VerdictScalars* verdict, const uint8_t* from, uint8_t* to,
                size_t bytes) {
  if (!MayUpdate(*verdict)) return;
  const size_t first = size_t{blockIdx.x} * kThreads + threadIdx.x;
  const size_t stride = size_t{gridDim.x} * kThreads;
  size_t head = bytes;
  if (AlignedAlike(from, to)) {
    using V = Vector<uint8_t>;
    head = Head(to, bytes);
    const size_t vectors = (bytes - head) / V::kLength;
    const V* f = reinterpret_cast<const V*>(from + head);
    V* t = reinterpret_cast<V*>(to + head);
    for (size_t i = first; i < vectors; i += stride) t[i] = f[i];
    for (size_t i = head + vectors * V::kLength + first; i < bytes;
         i += stride) {
      to[i] = from[i];
    }
  }
  for (size_t i = first; i < head; i += stride) to[i] = from[i];
}

}  // namespace

Launched CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                    size_t bytes, Stream stream) {
  if (bytes == 0) return kLaunched;
  return LaunchKernel(CommitBytes, BlocksFor(bytes / 16 + 1), kThreads, stream,
                      verdict, static_cast<const uint8_t*>(from),
                      static_cast<uint8_t*>(to), bytes);
}

Launched CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                      std::span<const TensorSlot> slots, DType dtype,
                      Stream stream) {
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched =
        LaunchOnSlots(slots, static_cast<T*>(const_cast<void*>(bucket)),
                      OnPairs<T, CommitOut<T>>{{.verdict = verdict}}, stream);
  });
  return launched;
}

}  // namespace lockstep::kernels::device

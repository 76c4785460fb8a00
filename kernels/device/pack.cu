#include "kernels/device/pack.h"
#include "kernels/device/slots.cuh"

namespace lockstep::kernels::device {
namespace {

template <class T>
struct CopyOut : Always {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = true, kWritesBucket = false;
  __device__ void operator()(T& t, T& b) const { t = b; }
};

template <class T>
struct ScaleIn : Always {
  static constexpr bool kReadsTensor = true, kReadsBucket = false;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> weight;
  __device__ void operator()(T& t, T& b) const { b = Scaled<T>(t, weight); }
};

template <class T>
struct AddIn : Always {
  static constexpr bool kReadsTensor = true, kReadsBucket = true;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> weight;
  __device__ void operator()(T& t, T& b) const {
    b = AddedScaled(b, t, weight);
  }
};

template <class T>
struct ScaleOut : Always {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = true, kWritesBucket = false;
  Compute<T> factor;
  __device__ void operator()(T& t, T& b) const { t = Scaled<T>(b, factor); }
};

template <class T>
struct ScaleThere : Always {
  static constexpr bool kReadsTensor = false, kReadsBucket = true;
  static constexpr bool kWritesTensor = false, kWritesBucket = true;
  Compute<T> factor;
  __device__ void operator()(T&, T& b) const { b = Scaled<T>(b, factor); }
};

// Copies do not interpret elements, so an integer of the same size replaces the
// dtype.
template <template <class> class Op>
Launched LaunchCopy(Slots slots, DType dtype, void* bucket, Stream stream) {
  const auto launch = [&](auto word) {
    using T = decltype(word);
    return LaunchOnSlots(slots, static_cast<T*>(bucket), OnPairs<T, Op<T>>{},
                         stream);
  };
  switch (SizeOf(dtype)) {
    case 1: return launch(uint8_t{});
    case 2: return launch(uint16_t{});
    case 4: return launch(uint32_t{});
    case 8: return launch(uint64_t{});
    default: Fatal("no element has this size");
  }
}

template <template <class> class Op>
Launched LaunchScale(Slots slots, DType dtype, double factor, void* bucket,
                     Stream stream) {
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = LaunchOnSlots(
        slots, static_cast<T*>(bucket),
        OnPairs<T, Op<T>>{{{}, static_cast<Compute<T>>(factor)}}, stream);
  });
  return launched;
}

}  // namespace

Launched Pack(Slots slots, DType dtype, void* bucket, Stream stream) {
  return LaunchCopy<CopyIn>(slots, dtype, bucket, stream);
}

Launched PackScaled(Slots slots, DType dtype, double weight, void* bucket,
                    Stream stream) {
  return LaunchScale<ScaleIn>(slots, dtype, weight, bucket, stream);
}

Launched PackAdded(Slots slots, DType dtype, double weight, void* bucket,
                   Stream stream) {
  return LaunchScale<AddIn>(slots, dtype, weight, bucket, stream);
}

Launched Unpack(const void* bucket, Slots slots, DType dtype, Stream stream) {
  return LaunchCopy<CopyOut>(slots, dtype, const_cast<void*>(bucket), stream);
}

Launched UnpackScaled(const void* bucket, Slots slots, DType dtype,
                      double factor, Stream stream) {
  return LaunchScale<ScaleOut>(slots, dtype, factor, const_cast<void*>(bucket),
                               stream);
}

Launched ScaleSlots(void* bucket, Slots slots, DType dtype, double factor,
                    Stream stream) {
  return LaunchScale<ScaleThere>(slots, dtype, factor, bucket, stream);
}

Launched ZeroSlots(void* bucket, Slots slots, DType dtype, Stream stream) {
  return LaunchCopy<Clear>(slots, dtype, bucket, stream);
}

}  // namespace lockstep::kernels::device

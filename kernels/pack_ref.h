// Reference for pack.h: the definitions that tests compare with.

#ifndef LOCKSTEP_KERNELS_PACK_REF_H_
#define LOCKSTEP_KERNELS_PACK_REF_H_

#include <span>

#include "kernels/element.h"
#include "kernels/slots.h"

namespace lockstep::kernels {

// Calls f(tensor element, bucket element) for every element of every slot.
template <class T, class F>
void ForElementsRef(std::span<const TensorSlot> slots, T* bucket, F&& f) {
  for (const TensorSlot& slot : slots) {
    for (size_t i = 0; i < slot.count; ++i) {
      f(static_cast<T*>(slot.tensor)[i], bucket[slot.offset + i]);
    }
  }
}

template <class T>
void PackRef(std::span<const TensorSlot> slots, T* bucket) {
  ForElementsRef(slots, bucket, [](T& t, T& b) { b = t; });
}

template <class T>
void PackScaledRef(std::span<const TensorSlot> slots, Compute<T> weight,
                   T* bucket) {
  ForElementsRef(slots, bucket, [=](T& t, T& b) { b = Scaled<T>(t, weight); });
}

template <class T>
void PackAddedRef(std::span<const TensorSlot> slots, Compute<T> weight,
                  T* bucket) {
  ForElementsRef(slots, bucket,
                 [=](T& t, T& b) { b = AddedScaled(b, t, weight); });
}

template <class T>
void UnpackRef(T* bucket, std::span<const TensorSlot> slots) {
  ForElementsRef(slots, bucket, [](T& t, T& b) { t = b; });
}

template <class T>
void UnpackScaledRef(T* bucket, std::span<const TensorSlot> slots,
                     Compute<T> factor) {
  ForElementsRef(slots, bucket, [=](T& t, T& b) { t = Scaled<T>(b, factor); });
}

template <class T>
void ScaleSlotsRef(T* bucket, std::span<const TensorSlot> slots,
                   Compute<T> factor) {
  ForElementsRef(slots, bucket, [=](T&, T& b) { b = Scaled<T>(b, factor); });
}

template <class T>
void ZeroSlotsRef(T* bucket, std::span<const TensorSlot> slots) {
  ForElementsRef(slots, bucket, [](T&, T& b) { b = T{}; });
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PACK_REF_H_

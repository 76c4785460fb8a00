// Reference for CastFeedback: the definition that tests compare with.

#ifndef LOCKSTEP_KERNELS_CAST_FEEDBACK_REF_H_
#define LOCKSTEP_KERNELS_CAST_FEEDBACK_REF_H_

#include <cstddef>

#include "kernels/half.h"

namespace lockstep::kernels {

template <class From, class To>
void CastFeedbackRef(const From* src, const From* residual, To* dst, From* next,
                     size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const From sum = src[i] + residual[i];
    dst[i] = ConvertTo<To>(sum);
    next[i] = sum - ConvertTo<From>(dst[i]);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CAST_FEEDBACK_REF_H_

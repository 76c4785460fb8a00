// A parameter's values and the state of its optimizer, as one call registers
// them for checkpoints (GradientSync::RegisterState).
//
//   sync->RegisterState(w, {.value = weights.data(),
//                           .slices = {{"exp_avg"}, {"exp_avg_sq"}}});
//   sync->Seal();
//   const auto slice = *sync->Slice(w);
//   exp_avg.resize(slice.count);
//   sync->SetSliceMemory(w, "exp_avg", exp_avg.data());
//
// This is the state "w", "w.exp_avg" and "w.exp_avg_sq". With sync:
// reduce_scatter each rank holds its slices of all three: checkpoints have the
// tensors, and can be loaded by another number of ranks.

#ifndef LOCKSTEP_PARAMETER_STATE_H_
#define LOCKSTEP_PARAMETER_STATE_H_

#include <string>
#include <vector>

#include "lockstep/dtype.h"
#include "lockstep/state_spec.h"

namespace lockstep {

// A tensor of the optimizer, in the shape of the parameter, of which a rank has
// the elements that it updates (GradientSync::Slice).
struct OptimizerSlice {
  std::string suffix;  // of the name, behind a dot
  DType dtype = DType::kF32;
};

struct ParameterState {
  // This rank's values, in the shape and the dtype of the parameter. Null with
  // sync: reduce_scatter, where they are the library's (GradientSync::Value).
  void* value = nullptr;
  // How the parameters of ranks are blocks of one tensor (StateSpec::cuts).
  std::vector<StateCut> cuts;
  std::vector<OptimizerSlice> slices;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PARAMETER_STATE_H_

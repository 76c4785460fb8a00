// PyTorch DDP with Gloo, for comparison: ddp_side.py, run by Debian's Python.

#ifndef LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_
#define LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_

#include <optional>
#include <string>

#include "bench/training_step/inventory.h"

namespace lockstep::bench {

// Seconds of a backward pass whose gradients are precomputed; see ddp_side.py.
struct DdpSeconds {
  double synchronised = 0;
  double alone = 0;
  std::string version;  // of PyTorch

  double synchronisation() const { return synchronised - alone; }
};

// `script` is the path of ddp_side.py. Empty if it could not run because
// PyTorch is not installed; standard error has the reason.
std::optional<DdpSeconds> MeasureDdp(const std::string& script,
                                     const Inventory& inventory, int steps);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_

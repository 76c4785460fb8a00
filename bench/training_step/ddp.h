// PyTorch DDP with Gloo beside us: ddp_side.py, under Debian's Python.

#ifndef LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_
#define LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_

#include <optional>
#include <string>

#include "bench/training_step/inventory.h"

namespace lockstep::bench {

// Seconds of a backward pass whose gradients lie ready, as ddp_side.py says.
struct DdpSeconds {
  double synchronised = 0;
  double alone = 0;
  std::string version;  // of PyTorch

  double synchronisation() const { return synchronised - alone; }
};

// `script` is ddp_side.py. None if it could not run: there is no PyTorch, then
// standard error says why.
std::optional<DdpSeconds> MeasureDdp(const std::string& script,
                                     const Inventory& inventory, int steps);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_TRAINING_STEP_DDP_H_

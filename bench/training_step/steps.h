// A training program that only communicates: parameters as a model has them, a
// stand-in for the backward pass, the library as a program uses it, and how
// long a step takes.
//
//   owners write their gradients │ meet │ backward ┐ Submit, last layer first
//          (not timed)                             └▶ ... ▶ Finish │
//                                └──────────── a step ─────────────┘
//
// Ranks are processes of this machine, and the coordinator is a lockstepd. What
// counts is the median over the steps of rank 0.

#ifndef LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_
#define LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_

#include <string>

#include "bench/training_step/inventory.h"
#include "lockstep/job_spec.h"

namespace lockstep::bench {

// Seconds of the backward pass, spread evenly over the parameters.
struct Backward {
  enum class Kind { kNone, kSleeps, kComputes };
  Kind kind = Kind::kNone;
  double seconds = 0;
};

struct StepsOptions {
  Inventory inventory;
  int ranks = 2;
  std::string transport = "shm";
  bool in_arena = true;  // else gradients are submitted from private buffers
  Overlap overlap = Overlap::kAuto;
  BucketPolicy buckets;
  Backward backward;
  // Each step is done twice: with the library, and with a barrier in its stead.
  bool also_bare = false;
  int warm_up = 20;  // a trial of who communicates is over by then
  int steps = 9;
};

// Medians.
struct StepSeconds {
  double step = 0;
  double exposed = 0;             // as GradientSync says
  double bare = 0;                // of the step with a barrier
  Overlap form = Overlap::kAuto;  // in which the last step was
};

// At `daemon`, a HOST:PORT. Ends the process if a rank fails. Must be called
// while there is one thread.
StepSeconds MeasureSteps(const std::string& daemon, const std::string& token,
                         const StepsOptions& options);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_

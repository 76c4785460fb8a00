// A training program that only communicates: the parameters of a model, a
// stand-in for the backward pass, the calls of the library that a program
// makes, and the duration of a step.
//
//   owners write gradients │ barrier │ backward ┐ Submit, last layer first
//        (not timed)                            └▶ ... ▶ Finish │
//                                    └───────── a step ─────────┘
//
// Ranks are processes of this machine; the coordinator is a lockstepd. The
// result is the median over the steps of rank 0.

#ifndef LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_
#define LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_

#include <string>

#include "bench/training_step/inventory.h"
#include "lockstep/job_options.h"

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
  // Runs each step twice: with the library, and with a barrier in its place.
  bool also_bare = false;
  int warm_up = 20;  // the trial of the overlap forms ends earlier
  int steps = 9;
};

// Medians over the steps.
struct StepSeconds {
  double step = 0;
  double exposed = 0;             // GradientSync::exposed_seconds
  double bare = 0;                // of the step with a barrier
  Overlap form = Overlap::kAuto;  // of the last step
};

// Runs a job at `daemon`, a HOST:PORT. Ends the process if a rank fails. Must
// be called while the process has one thread.
StepSeconds MeasureSteps(const std::string& daemon, const std::string& token,
                         const StepsOptions& options);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_TRAINING_STEP_STEPS_H_
